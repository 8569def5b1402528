"""A test of p-values that holds at all times: bet against their being independent and uniform.

Each bet is a density f on [0, 1]: a stake on it is multiplied by f(p_t) at each step, which on
average changes nothing while the p-values are uniform, whatever came before. The wealth starts at
1. At step t the part w_t = c / ((t - 1 + c)(t + c)) of it is taken from the reserve and put on all
bets alike:

    stake_t  = (stake_(t-1) + w_t / bets) f(p_t)
    wealth_t = reserve_t + sum of stakes,   reserve_t = c / (t + c)

so that wealth is waiting for a change whenever it comes, and the delay grows only with the
logarithm of its time. By Ville's inequality P(wealth_t >= 1 / alpha for any t) <= alpha. With c /
(t + c) as the prior of the change this is the procedure of Shiryaev, on conformal p-values as in
Vovk, Nouretdinov, Gammerman: Testing Exchangeability On-Line, 2003.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from typica.store import State, storable

BINS = 1024  # a bet is constant on each of this many equal parts of [0, 1]
PATIENCE = 1000  # the c above: half of the reserve is staked after this many steps
# Steps whose product cannot underflow, as no bet is below 1/2; overflow is as good as RICH.
BLOCK = 512
RICH = 1e100  # wealth is not counted beyond this

# (share, a, b): the density 1 - share + share * Beta(a, b). The first few look for low scores among
# typical ones, rare or frequent, the next for all scores moving down or up, the last for all moving
# to the middle.
BETS = (
    (0.03, 0.15, 1.0),
    (0.1, 0.2, 1.0),
    (0.5, 0.1, 1.0),
    (0.5, 0.4, 1.0),
    (0.5, 1.0, 2.0),
    (0.2, 1.0, 2.0),
    (0.5, 2.0, 1.0),
    (0.5, 1.0, 0.2),
    (0.5, 4.0, 4.0),
)


@functools.cache
def bet_table() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the value of each bet in each bin, (bets, BINS), and its logarithm.

    >>> bool(abs(bet_table()[0].mean(axis=1) - 1).max() < 1e-12)
    True
    """
    ends = np.arange(BINS + 1) / BINS
    table = np.array(
        [1 - share + share * BINS * np.diff(betainc(a, b, ends)) for share, a, b in BETS]
    )
    return table, np.log(table)


@storable("wealth")
class Wealth:
    """The wealth of the bets, and where the winning bet would best have been begun.

    >>> wealth = Wealth()
    >>> wealth.bet(np.full(20, 0.001)).max() > 100, wealth.change_point
    (np.True_, 0)
    """

    def __init__(self) -> None:
        self.steps = 0
        self._stakes = np.zeros(len(BETS))
        # The sum of each bet's logarithms since it was lowest, and the step that followed.
        self._gain = np.zeros(len(BETS))
        self._start = np.zeros(len(BETS), dtype=np.int64)

    @property
    def value(self) -> float:
        """The wealth now."""
        return min(float(PATIENCE / (self.steps + PATIENCE) + self._stakes.sum()), RICH)

    @property
    def change_point(self) -> int:
        """The step, counted from 0, since which the bet with the largest gain has made it."""
        return int(self._start[np.argmax(self._gain)])

    def bet(self, p: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bet on p-values in (0, 1] in the order of their arrival; return the wealth after each."""
        if len(p) == 0:
            return np.empty(0)
        bins = (p * BINS).astype(np.intp)  # p = 1 is clipped into the last bin
        table, logarithms = bet_table()
        self._look_for_start(np.cumsum(np.take(logarithms, bins, axis=1, mode="clip"), axis=1))
        starts = range(0, len(p), BLOCK)
        factors = np.take(table, bins, axis=1, mode="clip")
        return np.concatenate([self._stake(factors[:, start : start + BLOCK]) for start in starts])

    def _stake(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multiply the stakes by up to BLOCK factors of each bet; return the wealth after each.

        stake_t = P_t (stake_0 + sum over s <= t of added_s / P_(s-1)), P the product of factors.
        """
        n = factors.shape[1]
        t = np.arange(self.steps + 1, self.steps + n + 1, dtype=np.float64)
        reserve = PATIENCE / (t + PATIENCE)
        added = reserve / (t - 1 + PATIENCE) / len(BETS)
        with np.errstate(over="ignore"):
            products = np.cumprod(factors, axis=1)
            stakes = np.empty(factors.shape)
            stakes[:, 0] = added[0]
            np.divide(added[1:], products[:, :-1], out=stakes[:, 1:])
            np.cumsum(stakes, axis=1, out=stakes)
            stakes += self._stakes[:, None]
            stakes *= products
            path = reserve + stakes.sum(axis=0)
        self._stakes = np.minimum(stakes[:, -1], RICH)
        self.steps += n
        return np.asarray(np.minimum(path, RICH))

    def _look_for_start(self, sums: NDArray[np.float64]) -> None:
        lowest = np.argmin(sums, axis=1)
        low = sums[np.arange(len(sums)), lowest]
        later = low <= -self._gain  # the lowest point so far lies in this batch
        self._start = np.where(later, self.steps + lowest + 1, self._start)
        self._gain = sums[:, -1] + np.where(later, -low, self._gain)

    def state(self) -> State:
        """Return what is to be stored."""
        return {
            "steps": self.steps,
            "stakes": self._stakes,
            "gain": self._gain,
            "start": self._start,
        }

    @classmethod
    def from_state(cls, state: State) -> Wealth:
        """Rebuild the wealth from what was stored."""
        made = cls()
        made.steps, made._stakes = state["steps"], state["stakes"]
        made._gain, made._start = state["gain"], state["start"]
        return made
