"""What methods of one kind share: those of logits, of a head, of cosines, of scatters, of rows."""

from typica.detectors._bases.cosine import CosineDetector, DirectedDetector
from typica.detectors._bases.headed import (
    ClassesOfHead,
    HeadedDetector,
    MomentsDetector,
    check_classes,
    correctly_classified,
)
from typica.detectors._bases.logit import LogitDetector, Tempered
from typica.detectors._bases.means import LearnsClassMeans, mean_directions
from typica.detectors._bases.rows import SUBSAMPLE, RowsDetector, check_k, in_blocks
from typica.detectors._bases.scatter import (
    PrincipalDetector,
    ResidualDetector,
    ScatterDetector,
    check_dim,
    nan_as_minus_infinity,
    overflow_as_minus_infinity,
    principal_dim,
)
from typica.detectors._bases.two_passes import Totals, TwoPasses

__all__ = [
    "SUBSAMPLE",
    "ClassesOfHead",
    "CosineDetector",
    "DirectedDetector",
    "HeadedDetector",
    "LearnsClassMeans",
    "LogitDetector",
    "MomentsDetector",
    "PrincipalDetector",
    "ResidualDetector",
    "RowsDetector",
    "ScatterDetector",
    "Tempered",
    "Totals",
    "TwoPasses",
    "check_classes",
    "check_dim",
    "check_k",
    "correctly_classified",
    "in_blocks",
    "mean_directions",
    "nan_as_minus_infinity",
    "overflow_as_minus_infinity",
    "principal_dim",
]
