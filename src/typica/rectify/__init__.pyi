from ._registry import list_rectifiers, make_rectifier, rectifier_class
from .ash import ASH
from .base import Rectifier
from .bats import BATS
from .centre import Centre
from .dice import DICE
from .normalise import L2Normalise
from .optfs import OptFS
from .pca import PCA
from .random_fourier import RandomFourier
from .ras import RAS
from .react import ReAct
from .scale import SCALE
from .vra import VRA
from .whiten import Whiten

__all__ = [
    "ASH",
    "BATS",
    "DICE",
    "PCA",
    "RAS",
    "SCALE",
    "VRA",
    "Centre",
    "L2Normalise",
    "OptFS",
    "RandomFourier",
    "ReAct",
    "Rectifier",
    "Whiten",
    "list_rectifiers",
    "make_rectifier",
    "rectifier_class",
]
