from . import zoo
from ._adascale import AdaSCALE
from ._explain_images import explain_images
from ._extract import check_class_order, extract
from ._extracted_batch import Extraction, run_directly
from ._fastest_backend import make_runner
from ._gram import Gram
from ._guard import Guard, Guarded
from ._image_rows import Seen, features_of, rows_of
from ._input_reader import InputReader, check_no_network
from ._judge_images import judge_images
from ._layer_perturb import LayerPerturb, mislead
from ._nac import LayerNAC
from ._network_input import check_settings, transform_for
from ._network_of_function import is_function
from ._open_model import Opened, open_model
from ._perturb import ODIN, Perturb
from ._reduce import REDUCTIONS
from ._reopen import Reopened, reopen
from ._runner import Runner, Trial
from ._settings import BACKENDS, Settings
from ._start_runner import one_backend
from .extractors.dense import Perceptron
from .extractors.onnx import OnnxExtractor
from .extractors.program import GraphExtractor
from .extractors.torch import FeatureExtractor

__all__ = [
    "BACKENDS",
    "ODIN",
    "REDUCTIONS",
    "AdaSCALE",
    "Extraction",
    "FeatureExtractor",
    "Gram",
    "GraphExtractor",
    "Guard",
    "Guarded",
    "InputReader",
    "LayerNAC",
    "LayerPerturb",
    "OnnxExtractor",
    "Opened",
    "Perceptron",
    "Perturb",
    "Reopened",
    "Runner",
    "Seen",
    "Settings",
    "Trial",
    "check_class_order",
    "check_no_network",
    "check_settings",
    "explain_images",
    "extract",
    "features_of",
    "is_function",
    "judge_images",
    "make_runner",
    "mislead",
    "one_backend",
    "open_model",
    "reopen",
    "rows_of",
    "run_directly",
    "transform_for",
    "zoo",
]
