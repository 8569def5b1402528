"""Fair comparison of two functions' times on a machine that is never quite idle."""

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np


def ratio(
    candidate: Callable[[], Any], baseline: Callable[[], Any], repeats: int = 7
) -> tuple[float, float, float]:
    """Give (median ratio, median candidate seconds, median baseline seconds).

    The two are called in turn, so that a busy spell meets both; the ratio is taken pair by pair.
    """
    candidate()
    baseline()
    pairs = [(_seconds(candidate), _seconds(baseline)) for _ in range(repeats)]
    return (
        statistics.median(ours / theirs for ours, theirs in pairs),
        statistics.median(ours for ours, _ in pairs),
        statistics.median(theirs for _, theirs in pairs),
    )


def has_avx512() -> bool:
    """Tell whether NumPy uses AVX-512 here: products and sorts then outrun memory."""
    return "X86_V4" in np.show_config(mode="dicts")["SIMD Extensions"]["found"]


def _seconds(function: Callable[[], Any]) -> float:
    start = perf_counter()
    function()
    return perf_counter() - start
