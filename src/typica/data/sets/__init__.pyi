from ._describe import describe_set
from ._find import benchmark_set, find_set, how_to_get, list_sets
from ._get import get_set, size_text
from ._table import SETS, BenchmarkSet, SetFile

__all__ = [
    "SETS",
    "BenchmarkSet",
    "SetFile",
    "benchmark_set",
    "describe_set",
    "find_set",
    "get_set",
    "how_to_get",
    "list_sets",
    "size_text",
]
