"""How well scores tell in-distribution (ID) inputs from out-of-distribution (OOD) ones.

ID is the positive class, a higher score is more typical, and an input is accepted where score >=
threshold. `evaluate` measures one OOD set, `evaluate_many` several, and `aurc` how well scores rank
the network's own mistakes.
"""

from typica.metrics._evaluate import evaluate, evaluate_many, ood_scorer
from typica.metrics._mistakes import aurc, e_aurc
from typica.metrics._names import (
    ACCURACY,
    AURC,
    CONVENTIONS,
    E_AURC,
    METRICS,
    Metric,
    fpr_defined,
)
from typica.metrics._rate_interval import rate_interval
from typica.metrics._result import Evaluation, Result

__all__ = [
    "ACCURACY",
    "AURC",
    "CONVENTIONS",
    "E_AURC",
    "METRICS",
    "Evaluation",
    "Metric",
    "Result",
    "aurc",
    "e_aurc",
    "evaluate",
    "evaluate_many",
    "fpr_defined",
    "ood_scorer",
    "rate_interval",
]
