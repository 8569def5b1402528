"""The benchmark sets: official addresses, checksums, and how they get to this machine."""

from typica.data.sets._describe import describe_set
from typica.data.sets._get import (
    benchmark_set,
    find_set,
    get_set,
    how_to_get,
    list_sets,
    set_home,
    size_text,
)
from typica.data.sets._table import SETS, BenchmarkSet, SetFile

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
    "set_home",
    "size_text",
]
