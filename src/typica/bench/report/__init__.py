"""The report of a benchmark: one self-contained page, made from the folder that a run left."""

from typica.bench.report._build import write_report

__all__ = ["write_report"]
