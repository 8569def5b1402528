"""Features from programs in files: TorchScript (.pt) and torch.export (.pt2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from typica.checks import count, optional
from typica.errors import InputError, about, argument, border
from typica.files import existing, sha256
from typica.head import Head
from typica.nets._extracted_batch import Extraction, in_pieces, wanted_layers
from typica.nets._hooks import as_tokens
from typica.nets._reduce import Reduction, check_reduction, reduced, reduced_logits
from typica.nets._torch import check_device, tensor_of, torch
from typica.nets.extractors._exported import load_exported
from typica.nets.extractors._program import Program
from typica.nets.extractors._script import load_script
from typica.origin import PENULTIMATE


class GraphExtractor:
    """Runs a program and keeps what its values hold; called as a FeatureExtractor is.

    The head is the last linear layer that leads to an output, through softmax, reshaping and the
    like; an output called "logits" goes first. Logits are what it gives. Batches that the program
    does not take are cut or padded.

    Parameters
    ----------
    path
        A file of torch.jit.save, or of torch.export.save with the ending .pt2.
    layer
        In a .pt2 file, the dotted name of a module, or the name of a node of the graph; None takes
        the input of the head. In TorchScript, whose values have no names, it must be None.
    layers
        Several names at once, "penultimate" for the head's input; the last of them gives
        `.features`.
    reduce
        As for a FeatureExtractor.
    batch
        The batch size that a TorchScript program was traced for, if it takes no other; a .pt2 file
        states it.
    trust
        Whether the file may be loaded: it can run any code when it is.
    device
        Where to run, the CPU if None.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "model.pt2")
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    >>> torch.export.save(torch.export.export(model, (torch.ones(8, 4),)), path)
    >>> extractor = GraphExtractor(path, trust=True)
    >>> extractor(torch.ones(5, 4)).features.shape
    torch.Size([5, 3])
    >>> extractor.head
    Head(2 classes, 3 features)
    """

    backend: ClassVar = "torch"  # what runs it as it is

    @border
    def __init__(
        self,
        path: str | Path,
        layer: str | None = None,
        *,
        layers: Sequence[str] | None = None,
        reduce: Reduction = "mean",
        batch: int | None = None,
        device: Any = None,
        trust: bool = False,
    ) -> None:
        self.layers = wanted_layers(layer, layers)
        check_reduction(reduce)
        optional(count()).check("batch", batch)
        self.reduce = reduce
        self.path = existing(path)
        _check_trust(self.path, trust)
        if device is not None:
            check_device(device)
        self.device = torch.device("cpu" if device is None else device)
        self._arguments: dict[str, Any] = {
            "layer": layer,
            "layers": layers,
            "reduce": reduce,
            "batch": batch,
        }
        self._program = self._load(named=layer is not None or layers is not None)
        if batch is not None:
            self._program = self._program._replace(sizes=(batch, batch))

    def _load(self, named: bool) -> Program:
        if self.path.suffix.lower() == ".pt2":
            return load_exported(self.path, self.layers, named, self.device)
        if self.layers == [PENULTIMATE]:
            return load_script(self.path, self.device)
        raise InputError(
            f"layer {self.layers[0]!r} of {self.path}, but values in TorchScript have no names; "
            "leave layer out to take the head's input, or export the model as .onnx."
        )

    @border
    def __call__(self, images: Any) -> Extraction:
        """Run one batch, an array or tensor, (n, ...)."""
        with torch.no_grad():
            return in_pieces(self.prepared(images), self.sizes, self.run, torch.cat)

    def run(self, images: Any) -> Extraction:
        """Run one batch of a size that the program takes, with gradients as they are set."""
        values, logits = self._values(images)
        if self._program.weight is not None and logits is not None and logits.ndim > 2:
            logits = reduced_logits(as_tokens(logits), self.reduce)
        layers = {}
        for name, x in zip(self.layers, values, strict=True):
            with about(f"layer {name!r}"):
                layers[name] = reduced(as_tokens(x) if self._is_input(name) else x, self.reduce)
        rows = len(layers[self.layers[-1]])
        if rows != len(images):
            raise InputError(
                f"{self.path} gives {rows} rows for {len(images)} images: it was made for one "
                "batch size; pass it as batch=N, or export the model with a dynamic one."
            )
        return Extraction(layers[self.layers[-1]], logits, layers)

    def _values(self, images: Any) -> tuple[list[Any], Any]:
        """Return what the program gives for the layers, and the logits if it gives any."""
        try:
            values = list(self._program.function(self.prepared(images)))
        except (RuntimeError, AssertionError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise InputError(
                f"images of shape {tuple(images.shape)} do not fit {self.path} "
                f"({lines[-1][:200]}); pass the shape that it was made for, batch=N where it takes "
                "N images at once, or export it with a dynamic one."
            ) from error
        has_logits = len(values) > len(self.layers)
        return values[: len(self.layers)], values[-1] if has_logits else None

    def prepared(self, images: Any) -> Any:
        """Return a batch as a tensor on the device and in the type of the program's images."""
        if isinstance(images, np.ndarray):
            images = tensor_of(images)
        if not isinstance(images, torch.Tensor) or not images.ndim:
            raise InputError(
                f"got {type(images).__name__}; pass a batch as a tensor or array, (n, ...)."
            )
        dtype = self._program.dtype if images.is_floating_point() else images.dtype
        return images.to(self.device, dtype)

    @property
    def sizes(self) -> tuple[int, int | None]:
        """The fewest and the most images that the program takes at once."""
        return self._program.sizes

    @property
    @border
    def head(self) -> Head:
        """The last linear layer."""
        if self._program.weight is None:
            raise InputError(
                f"no linear layer gives the output of {self.path}; pass a Head of your own."
            )
        return Head(self._program.weight, self._program.bias)

    def to(self, device: Any) -> GraphExtractor:
        """Return the same program, read again onto a device."""
        if torch.device(device) == self.device:
            return self
        return type(self)(self.path, device=device, trust=True, **self._arguments)

    def describe(self) -> str:
        """Say in a sentence what the features are and where the head was found."""
        name, weight = self.layers[-1], self._program.weight
        source = "the input of the head" if self._is_input(name) else f"the output of {name!r}"
        told = "there is no linear head"
        if weight is not None:
            told = f"the head is a linear layer ({len(weight)} classes)"
        return f"{self.path.name}: features are {source}; {told}."

    def _is_input(self, name: str) -> bool:
        return name == PENULTIMATE and self._program.from_head

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file."""
        return sha256(self.path)

    def __repr__(self) -> str:
        return f"GraphExtractor({self.path}, layers={self.layers})"


def _check_trust(path: Path, trust: bool) -> None:
    """Refuse a file of PyTorch's, which can run code when it is loaded, unless it is trusted."""
    if not trust:
        raise InputError(
            f"{path} can run any code when it is loaded, as TorchScript and .pt2 files can, and "
            "is refused; export the model to ONNX (torch.onnx.export), or name the function that "
            "makes it, package.module:function, or, where you trust the file, agree with "
            f"{argument('trust', True)}."
        )
