"""The interval of a rate that was counted, such as that of rejected inputs."""

from scipy.special import betaincinv


def rate_interval(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson 1934 for the rate behind `hits` of n inputs.

    >>> [round(end, 4) for end in rate_interval(5, 100)]
    [0.0164, 0.1128]
    >>> rate_interval(0, 0)
    (0.0, 1.0)
    """
    tail = (1 - confidence) / 2
    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high
