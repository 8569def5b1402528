"""Features of a multilayer perceptron, by NumPy alone: neither PyTorch nor ONNX is needed."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from typica import store
from typica.arrays import AnyArray, to_numpy
from typica.errors import FormatError, InputError, a_kind, border
from typica.head import Head
from typica.nets._extracted_batch import Extraction, closest_names, wanted_layers
from typica.origin import PENULTIMATE
from typica.store import State, storable


@storable("perceptron")
class Perceptron:
    """Dense layers with ReLU between them, the head last; called as a FeatureExtractor is.

        Perceptron.of(MLPClassifier().fit(pixels / 255, labels)).save("network.safetensors")

    Images are read row by row, channel after channel. Its layers are "hidden1", "hidden2" ...; the
    last is the input of the head, "penultimate". A file that `save` wrote holds numbers and no
    code, and `open_model` opens it.

    Parameters
    ----------
    weights
        (inputs, outputs) of each layer.
    biases
        (outputs,) of each layer.
    classes
        The names of the outputs.

    >>> network = Perceptron([np.eye(4), np.ones((4, 2))], [np.zeros(4), np.array([0, 1])])
    >>> found = network(np.array([[[[3, -4], [0, 1]]]], dtype=np.float32))
    >>> found.features, found.logits
    (array([[3., 0., 0., 1.]], dtype=float32), array([[4., 5.]], dtype=float32))
    """

    backend: ClassVar = "numpy"  # what runs it as it is

    @border
    def __init__(self, weights: Sequence[Any], biases: Sequence[Any], classes: Any = None) -> None:
        self.weights, self.biases = _floats(weights), _floats(biases)
        _check(self.weights, self.biases)
        self.head = Head(self.weights[-1].T, self.biases[-1], classes)
        self.layers = [PENULTIMATE]

    @classmethod
    @border
    def of(cls, network: Any) -> Perceptron:
        """Return the network of a fitted scikit-learn MLPClassifier with one output per class."""
        try:
            weights, biases, classes = network.coefs_, network.intercepts_, network.classes_
            activation, last = network.activation, network.out_activation_
        except AttributeError:
            raise InputError(
                f"{a_kind(network)} that is not a fitted MLPClassifier; fit one."
            ) from None
        if activation != "relu" or last != "softmax":
            raise InputError(
                f"activation {activation!r} and {last} at the end; "
                "pass one with relu and three classes or more."
            )
        return cls(weights, biases, classes)

    @border
    def giving(self, layer: str | None = None, layers: Sequence[str] | None = None) -> Perceptron:
        """Return the network that gives what these layers hold; see FeatureExtractor."""
        wanted = wanted_layers(layer, layers)
        known = [*self._names(), PENULTIMATE]
        for name in wanted:
            if name not in known:
                raise InputError(
                    f"there is no layer {name!r}; closest: {closest_names(name, known)}."
                )
        twin = copy.copy(self)
        twin.layers = wanted
        return twin

    def _names(self) -> list[str]:
        return [f"hidden{k}" for k in range(1, len(self.weights))]

    @border
    def __call__(self, images: Any) -> Extraction:
        """Run one batch, an array or tensor, (n, ...)."""
        z = self._rows(images)
        found = {}
        for name, weight, bias in zip(self._names(), self.weights, self.biases, strict=False):
            z = np.maximum(z @ weight + bias, 0)
            found[name] = z
        found[PENULTIMATE] = z
        logits = z @ self.weights[-1] + self.biases[-1]
        layers = {name: found[name] for name in self.layers}
        return Extraction(layers[self.layers[-1]], logits, layers)

    def _rows(self, images: Any) -> NDArray[np.float32]:
        if not hasattr(images, "shape") or not len(images.shape):
            raise InputError(
                f"got {type(images).__name__}; pass a batch as an array or tensor, (n, ...)."
            )
        array = to_numpy(images)
        rows = array.reshape(len(array), int(np.prod(array.shape[1:]))).astype(np.float32)
        if rows.shape[1] != self.n_inputs:
            raise InputError(
                f"images of {array.shape[1:]}, {rows.shape[1]} numbers, where the network takes "
                f"{self.n_inputs}; check the transform."
            )
        return rows

    @property
    def n_inputs(self) -> int:
        """How many numbers an image has."""
        return int(self.weights[0].shape[0])

    def describe(self) -> str:
        """Say in a sentence what the features are and where the head is."""
        sizes = " x ".join(str(weight.shape[0]) for weight in self.weights)
        told = f"the head is the last layer ({len(self.head.classes)} classes)"
        return f"Perceptron, {sizes}: features are {self.layers[-1]!r}; {told}."

    def fingerprint(self) -> str:
        """Return the SHA-256 of the weights."""
        return store.fingerprint(self)

    @border
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to one .safetensors file, which `open_model` opens."""
        store.save(self, path)

    def __repr__(self) -> str:
        return f"Perceptron({self.n_inputs} inputs, {len(self.head.classes)} classes)"

    def state(self) -> State:
        """Return what is to be stored."""
        return {"weights": self.weights, "biases": self.biases, "classes": self.head.classes}

    @classmethod
    def from_state(cls, state: State) -> Perceptron:
        """Rebuild the network from what was stored."""
        return cls(state["weights"], state["biases"], state["classes"])


def load_perceptron(path: str | os.PathLike[str]) -> Perceptron:
    """Read what `Perceptron.save` has written."""
    loaded = store.load(path)
    if not isinstance(loaded, Perceptron):
        raise FormatError(f"{path}: holds {a_kind(loaded)}, not a network.")
    return loaded


def _floats(arrays: Sequence[Any]) -> list[AnyArray]:
    return [np.ascontiguousarray(to_numpy(array), dtype=np.float32) for array in arrays]


def _check(weights: list[AnyArray], biases: list[AnyArray]) -> None:
    if not weights or len(weights) != len(biases):
        raise InputError(
            f"{len(weights)} weights and {len(biases)} biases; pass one of each per layer."
        )
    width = weights[0].shape[0] if weights[0].ndim == 2 else 0
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        fits = weight.ndim == 2 and weight.shape[0] == width and bias.shape == weight.shape[1:]
        if not fits or not weight.size:
            raise InputError(
                f"layer {number}: a weight of shape {weight.shape} and a bias of {bias.shape} for "
                f"{width} inputs; pass (inputs, outputs) and (outputs,)."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InputError(f"layer {number} holds NaN or infinity; train it again.")
        width = weight.shape[1]
