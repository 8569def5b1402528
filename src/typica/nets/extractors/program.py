"""Features from programs that PyTorch has written to files: TorchScript (.pt, .pth), torch.export (.pt2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from typica.errors import InputError
from typica.files import existing, sha256
from typica.head import Head
from typica.nets._exported import load_exported
from typica.nets._result import PENULTIMATE, Extraction, in_pieces, wanted_layers
from typica.nets._script import load_script
from typica.nets._torch import torch
from typica.nets.extractors._reduce import Reduction, check_reduction, reduced
from typica.nets.extractors._tracing import as_tokens

_WHERE = "GraphExtractor"


class GraphExtractor:
    """Runs a program and keeps what its values hold; called as a FeatureExtractor is, it gives tensors.

    path: a file of torch.jit.save, or of torch.export.save with the ending .pt2. layer: of a .pt2
    file, the dotted name of a module, or the name of a node of the graph; None takes the input of
    the head. Values in TorchScript have no names, so layer must be None there. layers: several
    names at once, "penultimate" for the head's input; the last of them gives `.features`. reduce:
    as for a FeatureExtractor. batch: the size of the batches that a TorchScript program was traced
    for, where it takes no other; of a .pt2 file it is known. device: where to run, the CPU if None.

    The head is the last linear layer that leads to an output, through softmax, reshaping and the
    like; an output called "logits" goes first. Logits are what it gives. Batches that the program
    does not take are cut or padded.

    torch.export.load can run any Python code that a file holds. A .pt2 file is therefore checked
    first, and refused if it holds pickles of more than tensors, custom objects, compiled code,
    operations other than PyTorch's own, or names, sizes and guards that are more than that.
    TorchScript is read in C++, without Python's pickle; one with operations on files is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "model.pt2")
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    >>> torch.export.save(torch.export.export(model, (torch.ones(8, 4),)), path)
    >>> extractor = GraphExtractor(path)
    >>> extractor(torch.ones(5, 4)).features.shape
    torch.Size([5, 3])
    >>> extractor.head
    Head(2 classes, 3 features)
    """

    def __init__(
        self,
        path: str | Path,
        layer: str | None = None,
        *,
        layers: Sequence[str] | None = None,
        reduce: Reduction = "mean",
        batch: int | None = None,
        device: Any = None,
    ) -> None:
        self.layers = wanted_layers(layer, layers, _WHERE)
        check_reduction(reduce, _WHERE)
        self.reduce = reduce
        self.path = existing(path)
        self.device = torch.device("cpu" if device is None else device)
        self._arguments: dict[str, Any] = {
            "layer": layer,
            "layers": layers,
            "reduce": reduce,
            "batch": batch,
        }
        if self.path.suffix == ".pt2":
            named = layer is not None or layers is not None
            self._program = load_exported(self.path, self.layers, named, self.device, _WHERE)
        elif self.layers == [PENULTIMATE]:
            self._program = load_script(self.path, self.device, _WHERE)
        else:
            raise InputError(
                f"{_WHERE}: layer {self.layers[0]!r} of {self.path}, but values in TorchScript have no names; leave "
                "layer out to take the head's input, or export the model as .pt2 or .onnx."
            )
        if batch is not None:
            self._program = self._program._replace(sizes=(batch, batch))

    def __call__(self, images: Any) -> Extraction:
        """Run one batch, an array or tensor, (n, ...)."""
        with torch.no_grad():
            return in_pieces(self.prepared(images), self.sizes, self.run, torch.cat)

    def run(self, images: Any) -> Extraction:
        """Run one batch of a size that the program takes, with gradients as they are set."""
        try:
            *values, last = self._program.function(self.prepared(images))
        except (RuntimeError, AssertionError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise InputError(
                f"{_WHERE}: images of shape {tuple(images.shape)} do not fit {self.path} ({lines[-1][:200]}); pass the "
                "shape that it was made for, batch=N where it takes N images at once, or export it with a dynamic one."
            ) from error
        if len(values) < len(self.layers):
            values, logits = [*values, last], None
        else:
            logits = last
        if self._program.weight is not None and logits is not None and logits.ndim > 2:
            logits = reduced(as_tokens(logits), "cls" if self.reduce == "cls" else "mean", _WHERE)
        layers = {
            name: reduced(
                as_tokens(x) if self._is_input(name) else x,
                self.reduce,
                f"{_WHERE}, layer {name!r}",
            )
            for name, x in zip(self.layers, values, strict=True)
        }
        rows = len(layers[self.layers[-1]])
        if rows != len(images):
            raise InputError(
                f"{_WHERE}: {self.path} gives {rows} rows for {len(images)} images: it was made for one batch size; "
                "pass it as batch=N, or export the model with a dynamic one."
            )
        return Extraction(layers[self.layers[-1]], logits, layers)

    def prepared(self, images: Any) -> Any:
        """Return a batch as a tensor on the device and in the type of the program's images."""
        if isinstance(images, np.ndarray):
            images = torch.from_numpy(images if images.flags.writeable else images.copy())
        if not isinstance(images, torch.Tensor) or not images.ndim:
            raise InputError(
                f"{_WHERE}: got {type(images).__name__}; pass a batch as a tensor or array, (n, ...)."
            )
        return images.to(
            self.device, self._program.dtype if images.is_floating_point() else images.dtype
        )

    @property
    def sizes(self) -> tuple[int, int | None]:
        """The fewest and the most images that the program takes at once."""
        return self._program.sizes

    @property
    def head(self) -> Head:
        """The last linear layer."""
        if self._program.weight is None:
            raise InputError(
                f"{_WHERE}: no linear layer gives the output of {self.path}; pass a Head of your own."
            )
        return Head(self._program.weight, self._program.bias)

    def to(self, device: Any) -> GraphExtractor:
        """Return the same program, read anew on a device."""
        return (
            self
            if torch.device(device) == self.device
            else type(self)(self.path, device=device, **self._arguments)
        )

    def describe(self) -> str:
        """Say in a sentence what the features are and where the head was found."""
        name, weight = self.layers[-1], self._program.weight
        source = "the input of the head" if self._is_input(name) else f"the output of {name!r}"
        told = (
            "there is no linear head"
            if weight is None
            else f"the head is a linear layer ({len(weight)} classes)"
        )
        return f"{self.path.name}: features are {source}; {told}."

    def _is_input(self, name: str) -> bool:
        return name == PENULTIMATE and self._program.from_head

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file."""
        return sha256(self.path)

    def __repr__(self) -> str:
        return f"GraphExtractor({self.path}, layers={self.layers})"
