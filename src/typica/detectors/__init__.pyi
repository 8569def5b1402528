from ._banks import KnownRows, bank_labels, is_bank
from ._bases.combination import logistic_weights
from ._bases.cosine import CosineDetector
from ._bases.two_passes import TwoPasses
from ._load_detector import load_detector
from ._pipelines import (
    E,
    Estimator,
    check_fitted,
    detector_input,
    final_detector,
    is_pipeline,
    pipeline_steps,
    steps_before,
)
from ._registry import (
    describe_detector,
    detector_class,
    list_detectors,
    make_detector,
    parse_params,
    takes_head,
    wants_head,
)
from ._repr import array_text
from ._training_threshold import TRAINING_SAMPLE, TRAINING_TPR
from ._what_it_reads import (
    column_names,
    feature_names,
    input_head,
    input_width,
    known_width,
    origin_of,
    reads_layers,
    reads_logits,
)
from .base import Detector, Matches, Tags
from .cadref import CADRef
from .caref import CARef
from .ctm import CTM
from .cw import CW
from .doctor import DOCTOR
from .energy import Energy
from .ensemble import Ensemble
from .entropy import Entropy
from .fdbd import FDBD
from .gen import GEN
from .gmm import GMM
from .gradnorm import GradNorm
from .influence_kernel import InfluenceKernel
from .isolation_forest import IsolationForest
from .kl_matching import KLMatching
from .knn import KNN
from .layer_ensemble import LayerEnsemble
from .lof import LOF
from .lts import LTS
from .mahalanobis import Mahalanobis
from .margin import Margin
from .max_logit import MaxLogit
from .mds_pp import MDSpp
from .msp import MSP
from .nac import NAC
from .nci import NCI
from .neco import NECO
from .nnguide import NNGuide
from .openmax import OpenMax
from .pca_reconstruction import PCAReconstruction
from .pnml import PNML
from .projection import Projection
from .prototypes import Prototypes
from .quorum import Quorum
from .relation import Relation
from .relative_mahalanobis import RelativeMahalanobis
from .residual import Residual
from .rmds_pp import RMDSpp
from .she import SHE
from .vim import ViM
from .weiper import WeiPer

__all__ = [
    "CTM",
    "CW",
    "DOCTOR",
    "FDBD",
    "GEN",
    "GMM",
    "KNN",
    "LOF",
    "LTS",
    "MSP",
    "NAC",
    "NCI",
    "NECO",
    "PNML",
    "SHE",
    "TRAINING_SAMPLE",
    "TRAINING_TPR",
    "CADRef",
    "CARef",
    "CosineDetector",
    "Detector",
    "E",
    "Energy",
    "Ensemble",
    "Entropy",
    "Estimator",
    "GradNorm",
    "InfluenceKernel",
    "IsolationForest",
    "KLMatching",
    "KnownRows",
    "LayerEnsemble",
    "MDSpp",
    "Mahalanobis",
    "Margin",
    "Matches",
    "MaxLogit",
    "NNGuide",
    "OpenMax",
    "PCAReconstruction",
    "Projection",
    "Prototypes",
    "Quorum",
    "RMDSpp",
    "Relation",
    "RelativeMahalanobis",
    "Residual",
    "Tags",
    "TwoPasses",
    "ViM",
    "WeiPer",
    "array_text",
    "bank_labels",
    "check_fitted",
    "column_names",
    "describe_detector",
    "detector_class",
    "detector_input",
    "feature_names",
    "final_detector",
    "input_head",
    "input_width",
    "is_bank",
    "is_pipeline",
    "known_width",
    "list_detectors",
    "load_detector",
    "logistic_weights",
    "make_detector",
    "origin_of",
    "parse_params",
    "pipeline_steps",
    "reads_layers",
    "reads_logits",
    "steps_before",
    "takes_head",
    "wants_head",
]
