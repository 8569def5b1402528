from . import digits, published
from ._changed_images import near_features
from ._choice import CANNOT_SEE, Choice
from ._choose import leave_classes_out
from ._compare import Comparison, Worth, accepted, compare, compare_on, pareto
from ._comparison_table import comparison_table
from ._evaluate_files import choose_files, compare_files, evaluate_files
from ._experiments import (
    APART,
    EXPERIMENTS,
    Outcome,
    run_experiment,
    without_idle_methods,
)
from ._feature_sources import builtin_features, check_sources, read_features_folder, suite_features
from ._feature_suite import FeatureSuite
from ._fit_files import Fitted, fit_files
from ._headline import Headline, headline
from ._image_banks import banked
from ._keep_result import complete_result, keep_result
from ._matplotlib_plots import PLOTS, plot
from ._method_names import PAPER, adapted, make_detectors, named_methods
from ._narrow_table import NarrowTable
from ._record import Record
from ._record_tables import tables_of
from ._result_files import read_result, read_result_scores, result_file, write_result
from ._runs import Scores
from ._suite import Suite, init_text, list_suites, load_suite, suite_text
from ._suite_banks import prepare
from ._table import Table
from ._table_formats import to_csv, to_html, to_latex, to_markdown, to_terminal
from ._workbench import Workbench
from ._write_gallery import write_gallery
from .report import write_report

__all__ = [
    "APART",
    "CANNOT_SEE",
    "EXPERIMENTS",
    "PAPER",
    "PLOTS",
    "Choice",
    "Comparison",
    "FeatureSuite",
    "Fitted",
    "Headline",
    "NarrowTable",
    "Outcome",
    "Record",
    "Scores",
    "Suite",
    "Table",
    "Workbench",
    "Worth",
    "accepted",
    "adapted",
    "banked",
    "builtin_features",
    "check_sources",
    "choose_files",
    "compare",
    "compare_files",
    "compare_on",
    "comparison_table",
    "complete_result",
    "digits",
    "evaluate_files",
    "fit_files",
    "headline",
    "init_text",
    "keep_result",
    "leave_classes_out",
    "list_suites",
    "load_suite",
    "make_detectors",
    "named_methods",
    "near_features",
    "pareto",
    "plot",
    "prepare",
    "published",
    "read_features_folder",
    "read_result",
    "read_result_scores",
    "result_file",
    "run_experiment",
    "suite_features",
    "suite_text",
    "tables_of",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
    "to_terminal",
    "without_idle_methods",
    "write_gallery",
    "write_report",
    "write_result",
]
