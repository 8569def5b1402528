"""Known architectures, written from their papers, under the keys of the public checkpoints.

    model = zoo.load("densenet-bc-100", weights="checkpoint.pth.tar")
    pixels = zoo.transform("densenet-bc-100")(images)

One architecture per file; a table ties its name to its preprocessing and to the place of its head.
"""

from typica.data import Preprocessing
from typica.nets.zoo._load import load
from typica.nets.zoo._table import find, has_weights, list_architectures, transform

__all__ = ["Preprocessing", "find", "has_weights", "list_architectures", "load", "transform"]
