"""Features from any layer of any PyTorch model, as it is: no cooperation from the model, nothing left behind on it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from typica.errors import InputError
from typica.head import Head
from typica.nets._result import PENULTIMATE, Extraction, closest, some, wanted_layers
from typica.nets._torch import nn, torch
from typica.nets.extractors._reduce import Reduction, check_reduction, reduced
from typica.nets.extractors._tracing import (
    ONE_AT_A_TIME,
    WRAPPERS,
    Call,
    Hook,
    Tape,
    as_tokens,
    evaluating,
    find_head,
    first_tensor,
    hooked,
    is_opaque,
    output_logits,
    tensors,
    unwrapped,
)

__all__ = ["PENULTIMATE", "Extraction", "FeatureExtractor"]

_log = logging.getLogger("typica.nets")


class FeatureExtractor:
    """Runs a model and keeps what its layers give.

    model: any `nn.Module`; DataParallel and torch.compile are taken off. layer: the dotted name of
    the module whose output is the feature ("" is the model itself); None takes the input of the
    head. layers: several names at once, "penultimate" for the head's input; the last of them gives
    `.features`. head: the dotted name of the head; None finds it. reduce: how outputs of more than
    two dimensions become one row an input: "mean", "max", "flatten", "cls" (of tokens), or a
    function from a tensor to rows; maps are (n, m, h, w), tokens (n, t, m). Of a module that runs
    several times in a pass, the last run counts.

    The head is the last Linear module to run whose output the model returns, else the last to run.
    The first batch tells; where there is but one Linear module, `head` is there before. `describe`
    and the log say what was found. Logits are what the head gives, before any softmax that the
    model puts after it.

    A pass is made in eval mode and without gradients, unless they are asked for; modes and flags
    are put back.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> extractor = FeatureExtractor(model)
    >>> batch = extractor(torch.ones(5, 4))
    >>> batch.features.shape, batch.logits.shape
    (torch.Size([5, 3]), torch.Size([5, 2]))
    >>> extractor.head
    Head(2 classes, 3 features)
    >>> extractor.describe().partition(";")[0]
    'Sequential: features are the input of the head (3 wide)'
    """

    def __init__(
        self,
        model: Any,
        layer: str | None = None,
        *,
        layers: Sequence[str] | None = None,
        head: str | None = None,
        reduce: Reduction = "mean",
    ) -> None:
        where = "FeatureExtractor"
        if not isinstance(model, nn.Module):
            raise InputError(f"{where}: model is a {type(model).__name__}; pass a torch.nn.Module.")
        wanted = wanted_layers(layer, layers, where)
        check_reduction(reduce, where)
        self.model = unwrapped(model)
        if is_opaque(self.model):
            raise InputError(
                f"{where}: TorchScript and exported programs take no hooks; pass the module they came from."
            )
        self.reduce = reduce
        self._names = [name for name, _ in self.model.named_modules(remove_duplicate=False)]
        self._linears = [
            name for name, module in self.model.named_modules() if isinstance(module, nn.Linear)
        ]
        # Should a model have a module of that name, the name means it; layer=None still means the
        # head's input.
        self._from_head = PENULTIMATE in wanted and (
            layer is layers is None or PENULTIMATE not in self._names
        )
        self.layers = [
            name if self._from_head and name == PENULTIMATE else self._known(name)
            for name in wanted
        ]
        self._head_given = head is not None
        self._head = self._linears[0] if len(self._linears) == 1 else None
        if head is not None:
            module = self.model.get_submodule(self._known(head))
            self._head = next(
                (name for name in self._linears if self.model.get_submodule(name) is module), None
            )
            if self._head is None:
                raise InputError(
                    f"{where}: head {head!r} is not a Linear module; name one of {some(self._linears)}."
                )
        self._ran: list[str] | None = None  # what the first pass reached, in order
        self._finding = "no batch has been run yet."

    def __call__(self, images: Any, *, gradients: bool = False) -> Extraction:
        """Run one batch: an array or tensor for the model, or a dict of its keyword arguments.

        It is moved to the model's device and floating-point type. With `gradients`, what is
        returned can be differentiated with respect to `images`.
        """
        with ONE_AT_A_TIME, evaluating(self.model, gradients):
            return self.run(images)

    def run(self, images: Any) -> Extraction:
        """Run one batch as the model stands: in its own mode, and with gradients as they are set."""
        tape = Tape()
        with hooked(self._hooks(tape)):
            output = self._forward(images)
        if self.traced:
            return self._extraction(tape, output, self._head)
        head = self._head if self._head_given else find_head(tape.calls, output)
        extraction = self._extraction(tape, output, head)
        self._head, self._ran = head, list(dict.fromkeys(tape.ran))
        self._finding = self._told(extraction, tape, output)
        _log.info("%s", self.describe())
        return extraction

    @property
    def traced(self) -> bool:
        """Whether a batch has been run, so that the head is settled."""
        return self._ran is not None

    @property
    def head(self) -> Head:
        """The last linear layer, with the weights that it has now."""
        module = self.head_module
        return Head(module.weight, module.bias)

    @property
    def head_module(self) -> Any:
        """The Linear module that is the head."""
        if self._head is not None:
            return self.model.get_submodule(self._head)
        if self._ran is not None:
            raise self._no_head(self._ran)
        raise InputError(
            f"FeatureExtractor.head: {len(self._linears)} Linear modules, and no batch yet that tells which is the "
            "head; run one, extractor(images), or pass head=NAME."
        )

    def describe(self) -> str:
        """Say in a sentence what the features are and where the head was found."""
        return f"{type(self.model).__name__}: {self._finding}"

    def fingerprint(self) -> str:
        """Return the SHA-256 of the model: its modules with their settings, and its tensors with their names.

        What `forward` does beside its modules is not seen.
        """
        digest = hashlib.sha256()
        for name, module in self.model.named_modules():
            digest.update(f"\n{name} {type(module).__name__}({module.extra_repr()})".encode())
        for name, tensor in [*self.model.named_parameters(), *self.model.named_buffers()]:
            digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            digest.update(
                tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
            )
        return digest.hexdigest()

    def __repr__(self) -> str:
        return f"FeatureExtractor({type(self.model).__name__}, layers={self.layers}, head={self._head!r})"

    # How it is done

    def _known(self, name: Any) -> str:
        """Return the name of a module as the unwrapped model has it."""
        bare = str(name)
        while bare not in self._names and bare.startswith(WRAPPERS):
            bare = bare.partition(".")[2]
        if bare not in self._names:
            raise InputError(
                f"FeatureExtractor: {type(self.model).__name__} has no module {name!r}; "
                f"closest: {closest(bare, self._names)}."
            )
        return bare

    def _hooks(self, tape: Tape) -> Iterator[tuple[Any, Hook]]:
        """Yield what to watch: the layers asked for and the head; everything while the head is not settled."""

        def layer(name: str) -> Hook:
            def hook(_: Any, output: Any) -> None:
                tape.layers[name] = self._reduced(first_tensor(output), name)

            return hook

        def linear(name: str) -> Hook:
            return lambda x, output: tape.calls.keep(name, Call.of(x, output))

        def anything(name: str) -> Hook:
            return lambda *_: tape.ran.append(name)

        for name in self.layers:
            if not (self._from_head and name == PENULTIMATE):
                yield self.model.get_submodule(name), layer(name)
        if self.traced:
            if self._head is not None:
                yield self.head_module, linear(self._head)
            return
        for name, module in self.model.named_modules():
            yield module, anything(name)
            if name in self._linears:
                yield module, linear(name)

    def _forward(self, images: Any) -> Any:
        if isinstance(images, Mapping):
            moved = {
                key: self.prepared(value) if isinstance(value, np.ndarray | torch.Tensor) else value
                for key, value in images.items()
            }
            return self.model(**moved)
        moved = self.prepared(images)
        try:
            return self.model(moved)
        except RuntimeError as error:
            if moved.dtype != torch.uint8:
                raise
            raise InputError(
                f"FeatureExtractor: the model takes no uint8 images ({error}); preprocess them, zoo.transform(NAME)."
            ) from error

    def prepared(self, images: Any) -> Any:
        """Return a batch as a tensor on the device and in the floating-point type of the model."""
        if isinstance(images, np.ndarray):
            images = torch.from_numpy(images if images.flags.writeable else images.copy())
        if not isinstance(images, torch.Tensor):
            raise InputError(
                f"FeatureExtractor: got {type(images).__name__}; pass a batch as a tensor or array, (n, ...), "
                "or a dict of the model's keyword arguments."
            )
        weight = next((p for p in self.model.parameters() if p.is_floating_point()), images)
        return images.to(
            weight.device, weight.dtype if images.is_floating_point() else images.dtype
        )

    def _extraction(self, tape: Tape, output: Any, head: str | None) -> Extraction:
        call = None if head is None else tape.calls.get(head)
        found = dict(tape.layers)
        if self._from_head:
            if call is None:
                raise self._no_head(tape.ran or self._ran or [])
            found[PENULTIMATE] = self._reduced(as_tokens(call.input), PENULTIMATE)
        for name in self.layers:
            if name not in found:
                ran = tape.ran or self._ran or []
                raise InputError(
                    f"FeatureExtractor: module {name!r} was never reached in this pass; the last to run were "
                    f"{self._listed(ran)}."
                )
        if call is None:
            logits = output_logits(output)
        else:  # of tokens, one row an input, chosen like the features' so that the head relates the two
            logits = call.output
            if logits.ndim > 2:
                logits = reduced(
                    as_tokens(logits), "cls" if self.reduce == "cls" else "mean", "FeatureExtractor"
                )
        layers = {name: found[name] for name in self.layers}
        return Extraction(layers[self.layers[-1]], logits, layers)

    def _reduced(self, x: Any, name: str) -> Any:
        where = f"FeatureExtractor, layer {name!r}"
        if x is None:
            raise InputError(f"{where}: its output holds no tensor; choose another layer.")
        return reduced(x, self.reduce, where)

    def _told(self, extraction: Extraction, tape: Tape, output: Any) -> str:
        """Say what the first pass has found."""
        name = self.layers[-1]
        source = (
            "the input of the head"
            if self._from_head and name == PENULTIMATE
            else f"the output of {name!r}"
        )
        features = f"features are {source} ({extraction.features.shape[1]} wide)"
        if self._head is None:
            return f"{features}; there is no Linear head."
        returned = any(tape.calls[self._head].gave(tensor) for _, tensor in tensors(output))
        how = (
            "whose output the model returns"
            if returned
            else "the last Linear to run; the model returns something else"
        )
        return f"{features}; the head is {self._head!r} ({self.head_module.out_features} classes), {how}."

    def _no_head(self, ran: list[str]) -> InputError:
        unused = [name for name in self._linears if name not in ran]
        found = (
            f"Linear modules that did not run: {some(unused)}"
            if unused
            else "no Linear module that could have"
        )
        return InputError(
            f"FeatureExtractor: no Linear module gave the output of {type(self.model).__name__} ({found}); pass "
            f"layer=NAME; the last modules to run were {self._listed(ran)}."
        )

    def _listed(self, ran: list[str]) -> str:
        """Name the last modules that ran, leaves alone, with their types."""
        modules = ((name, self.model.get_submodule(name)) for name in ran)
        leaves = [
            f"{name!r} ({type(module).__name__})"
            for name, module in modules
            if not list(module.children())
        ]
        return ", ".join(leaves[-8:]) or "none"
