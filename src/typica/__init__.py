"""Know when a trained classifier is looking at something it does not know."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typica.bank import Bank, write_bank
    from typica.calibration import Calibration
    from typica.decide import (
        ConformalDetector,
        Monitor,
        calibrate,
        discoveries,
        explain,
        judge,
        p_values,
        partial_calibrate,
    )
    from typica.detectors import Detector, Tags, detector_class, list_detectors, make_detector
    from typica.detectors.ctm import CTM
    from typica.detectors.cw import CW
    from typica.detectors.energy import Energy
    from typica.detectors.ensemble import Ensemble
    from typica.detectors.entropy import Entropy
    from typica.detectors.fdbd import FDBD
    from typica.detectors.gen import GEN
    from typica.detectors.gradnorm import GradNorm
    from typica.detectors.influence_kernel import InfluenceKernel
    from typica.detectors.isolation_forest import IsolationForest
    from typica.detectors.kl_matching import KLMatching
    from typica.detectors.knn import KNN
    from typica.detectors.lof import LOF
    from typica.detectors.mahalanobis import Mahalanobis
    from typica.detectors.margin import Margin
    from typica.detectors.max_logit import MaxLogit
    from typica.detectors.msp import MSP
    from typica.detectors.nci import NCI
    from typica.detectors.nnguide import NNGuide
    from typica.detectors.openmax import OpenMax
    from typica.detectors.pca_reconstruction import PCAReconstruction
    from typica.detectors.relative_mahalanobis import RelativeMahalanobis
    from typica.detectors.residual import Residual
    from typica.detectors.she import SHE
    from typica.detectors.vim import ViM
    from typica.errors import CalibrationWarning, FormatError, InputError
    from typica.explanation import Explanation
    from typica.head import Head
    from typica.metrics import Evaluation, Result, evaluate, ood_scorer
    from typica.moments import Moments
    from typica.origin import Origin
    from typica.rectify import Rectifier, list_rectifiers, make_rectifier, rectifier_class
    from typica.rectify.ash import ASH
    from typica.rectify.centre import Centre
    from typica.rectify.dice import DICE
    from typica.rectify.normalise import L2Normalise
    from typica.rectify.pca import PCA
    from typica.rectify.react import ReAct
    from typica.rectify.scale import SCALE
    from typica.rectify.vra import VRA
    from typica.rectify.whiten import Whiten
    from typica.store import load, save
    from typica.verdicts import Verdicts

# Loaded when first asked for, so that `import typica` costs next to nothing.
_HOMES = {
    "bank": (
        "Bank",
        "write_bank",
    ),
    "detectors": (
        "Detector",
        "Tags",
        "detector_class",
        "list_detectors",
        "make_detector",
    ),
    "detectors.ctm": ("CTM",),
    "detectors.cw": ("CW",),
    "detectors.energy": ("Energy",),
    "detectors.ensemble": ("Ensemble",),
    "detectors.entropy": ("Entropy",),
    "detectors.fdbd": ("FDBD",),
    "detectors.gen": ("GEN",),
    "detectors.gradnorm": ("GradNorm",),
    "detectors.influence_kernel": ("InfluenceKernel",),
    "detectors.isolation_forest": ("IsolationForest",),
    "detectors.kl_matching": ("KLMatching",),
    "detectors.knn": ("KNN",),
    "detectors.lof": ("LOF",),
    "detectors.mahalanobis": ("Mahalanobis",),
    "detectors.margin": ("Margin",),
    "detectors.max_logit": ("MaxLogit",),
    "detectors.msp": ("MSP",),
    "detectors.nci": ("NCI",),
    "detectors.nnguide": ("NNGuide",),
    "detectors.openmax": ("OpenMax",),
    "detectors.pca_reconstruction": ("PCAReconstruction",),
    "detectors.relative_mahalanobis": ("RelativeMahalanobis",),
    "detectors.residual": ("Residual",),
    "detectors.she": ("SHE",),
    "detectors.vim": ("ViM",),
    "errors": (
        "CalibrationWarning",
        "FormatError",
        "InputError",
    ),
    "explanation": ("Explanation",),
    "head": ("Head",),
    "metrics": (
        "Evaluation",
        "Result",
        "evaluate",
        "ood_scorer",
    ),
    "moments": ("Moments",),
    "decide": (
        "ConformalDetector",
        "Monitor",
        "calibrate",
        "discoveries",
        "explain",
        "judge",
        "p_values",
        "partial_calibrate",
    ),
    "calibration": ("Calibration",),
    "origin": ("Origin",),
    "verdicts": ("Verdicts",),
    "rectify": (
        "Rectifier",
        "list_rectifiers",
        "make_rectifier",
        "rectifier_class",
    ),
    "rectify.ash": ("ASH",),
    "rectify.centre": ("Centre",),
    "rectify.dice": ("DICE",),
    "rectify.normalise": ("L2Normalise",),
    "rectify.pca": ("PCA",),
    "rectify.react": ("ReAct",),
    "rectify.scale": ("SCALE",),
    "rectify.vra": ("VRA",),
    "rectify.whiten": ("Whiten",),
    "store": (
        "load",
        "save",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ASH",
    "CTM",
    "CW",
    "DICE",
    "FDBD",
    "GEN",
    "KNN",
    "LOF",
    "MSP",
    "NCI",
    "PCA",
    "SCALE",
    "SHE",
    "VRA",
    "Bank",
    "Calibration",
    "CalibrationWarning",
    "Centre",
    "ConformalDetector",
    "Detector",
    "Energy",
    "Ensemble",
    "Entropy",
    "Evaluation",
    "Explanation",
    "FormatError",
    "GradNorm",
    "Head",
    "InfluenceKernel",
    "InputError",
    "IsolationForest",
    "KLMatching",
    "L2Normalise",
    "Mahalanobis",
    "Margin",
    "MaxLogit",
    "Moments",
    "Monitor",
    "NNGuide",
    "OpenMax",
    "Origin",
    "PCAReconstruction",
    "ReAct",
    "Rectifier",
    "RelativeMahalanobis",
    "Residual",
    "Result",
    "Tags",
    "Verdicts",
    "ViM",
    "Whiten",
    "calibrate",
    "detector_class",
    "discoveries",
    "evaluate",
    "explain",
    "judge",
    "list_detectors",
    "list_rectifiers",
    "load",
    "make_detector",
    "make_rectifier",
    "ood_scorer",
    "p_values",
    "partial_calibrate",
    "rectifier_class",
    "save",
    "write_bank",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'typica' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"typica.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
