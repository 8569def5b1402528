"""Features from any layer of any PyTorch model, as it is: nothing is left behind on it."""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from typica.errors import InputError, a_kind, about, argument, border, listed
from typica.head import Head
from typica.nets._extracted_batch import Extraction, batch_of, closest_names, wanted_layers
from typica.nets._hooks import (
    ONE_AT_A_TIME,
    WRAPPERS,
    Call,
    Hook,
    Tape,
    as_tokens,
    evaluating,
    first_tensor,
    head_name,
    hooked,
    is_opaque,
    output_logits,
    tensors,
    unwrapped,
)
from typica.nets._reduce import Reduction, check_reduction, reduced, reduced_logits
from typica.nets._torch import Tensor, nn, tensor_of, torch
from typica.origin import PENULTIMATE


class FeatureExtractor:
    """Runs a model and keeps what its layers give.

    The head is the last Linear module to run whose output the model returns, else the last to run.
    The first batch tells which it is; where there is only one Linear module, `head` is known
    before. `describe` and the log say what was found. Logits are what the head gives, before any
    softmax that the model puts after it.

    A pass is made in eval mode and without gradients, unless they are asked for; modes and flags
    are put back. If a module runs several times in a pass, the last run counts.

    Parameters
    ----------
    model
        Any `nn.Module`; DataParallel and torch.compile are taken off.
    layer
        The dotted name of the module whose output is the feature ("" is the model itself); None
        takes the input of the head.
    layers
        Several names at once, "penultimate" for the head's input; the last of them gives
        `.features`.
    head
        The dotted name of the head; None finds it.
    reduce
        How outputs of more than two dimensions become one row per input: "mean", "max",
        "mean+std", "flatten", "cls" (of tokens), or a function from a tensor to rows; maps are
        (n, m, h, w), tokens (n, t, m).
    classes
        The names of the model's outputs in their order, which are then those of `head`.

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

    backend: ClassVar = "torch"  # what runs it as it is

    @border
    def __init__(
        self,
        model: Any,
        layer: str | None = None,
        *,
        layers: Sequence[str] | None = None,
        head: str | None = None,
        reduce: Reduction = "mean",
        classes: Sequence[str | int] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise InputError(f"model is {a_kind(model)}; pass a torch.nn.Module.")
        wanted = wanted_layers(layer, layers)
        check_reduction(reduce)
        self.model = unwrapped(model)
        if is_opaque(self.model):
            raise InputError(
                "TorchScript and exported programs take no hooks; pass the module they came from."
            )
        self.reduce = reduce
        self._classes = classes
        self._names = [name for name, _ in self.model.named_modules(remove_duplicate=False)]
        self._linears: list[str] = [
            name for name, module in self.model.named_modules() if isinstance(module, nn.Linear)
        ]
        by_default = layer is None and layers is None
        self._from_head = self._reads_head_input(wanted, by_default)
        self.layers = [self._layer_name(name) for name in wanted]
        self._head_given = head is not None
        self._head = self._first_head(head)
        self._ran: list[str] | None = None  # what the first pass reached, in order
        self._turn = ONE_AT_A_TIME
        self._finding = "no batch has been run yet."

    @border
    def __call__(self, images: Any = None, *, gradients: bool = False, **named: Any) -> Extraction:
        """Run one batch: an array or tensor for the model, or its keyword arguments (or a dict).

        It is moved to the model's device and floating-point type. With `gradients`, what is
        returned can be differentiated with respect to `images`.
        """
        with self._turn, evaluating(self.model, gradients):
            return self.run(batch_of(images, named))

    def run(self, images: Any) -> Extraction:
        """Run one batch as the model stands, in its mode and with gradients as they are set."""
        tape = Tape()
        with hooked(self._hooks(tape)):
            output = self._forward(images)
        if self.traced:
            return self._extraction(tape, output, self._head)
        head = self._head if self._head_given else head_name(tape.calls, output)
        extraction = self._extraction(tape, output, head)
        self._head, self._ran = head, list(dict.fromkeys(tape.ran))
        self._finding = self._told(extraction, tape, output)
        return extraction

    def twin(self) -> FeatureExtractor:
        """Return one that can be run in another thread at the same time, on the same parameters.

        Its modules are its own: nobody else sets hooks and modes on them, so it waits for nobody.
        """
        shared = {id(parameter): parameter for parameter in self.model.parameters()}
        made = copy.copy(self)
        made.model = copy.deepcopy(self.model, shared)
        made._turn = threading.RLock()
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._turn = ONE_AT_A_TIME  # a lock cannot be copied

    @property
    def traced(self) -> bool:
        """Whether a batch has been run, so that the head is settled."""
        return self._ran is not None

    @property
    @border
    def head(self) -> Head:
        """The last linear layer, with the weights that it has now."""
        module = self.head_module
        return Head(module.weight, module.bias, self._classes)

    @property
    def head_module(self) -> nn.Module:
        """The Linear module that is the head."""
        if self._head is not None:
            return self.model.get_submodule(self._head)
        if self._ran is not None:
            raise self._no_head(self._ran)
        raise InputError(
            f"{len(self._linears)} Linear modules, and no batch yet that "
            "tells which is the head; run one, extractor(images), or pass head=NAME."
        )

    def describe(self) -> str:
        """Say in a sentence what the features are and where the head was found."""
        return f"{type(self.model).__name__}: {self._finding}"

    def fingerprint(self) -> str:
        """Return the SHA-256 of the model: its modules with their settings, its tensors with names.

        What `forward` itself does beside its modules is not covered.
        """
        digest = hashlib.sha256()
        for name, module in self.model.named_modules():
            digest.update(f"\n{name} {type(module).__name__}({module.extra_repr()})".encode())
        for name, tensor in [*self.model.named_parameters(), *self.model.named_buffers()]:
            digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def __repr__(self) -> str:
        model = type(self.model).__name__
        return f"FeatureExtractor({model}, layers={self.layers}, head={self._head!r})"

    # How it is done

    def is_head_input(self, name: str) -> bool:
        """Tell whether a layer is the head's input."""
        return self._from_head and name == PENULTIMATE

    def _reads_head_input(self, wanted: list[str], by_default: bool) -> bool:
        """Tell whether one of the wanted layers, "penultimate", is the head's input.

        A module of that name in the model goes first, unless no layer was asked for.
        """
        has_own = PENULTIMATE in self._names
        return PENULTIMATE in wanted and (by_default or not has_own)

    def _layer_name(self, name: str) -> str:
        """Return the name of a wanted layer: "penultimate", or a module's."""
        if self.is_head_input(name):
            return name
        return self._known(name)

    def _first_head(self, head: str | None) -> str | None:
        """Return the name of the head as far as it is known before a batch."""
        if head is None:
            if len(self._linears) == 1:
                return self._linears[0]
            return None
        module = self.model.get_submodule(self._known(head))
        for name in self._linears:
            if self.model.get_submodule(name) is module:
                return name
        raise InputError(
            f"head {head!r} is not a Linear module; "
            f"name one of {listed(self._linears, quoted=True)}."
        )

    def _known(self, name: Any) -> str:
        """Return the name of a module as the unwrapped model has it."""
        bare = str(name)
        while bare not in self._names and bare.startswith(WRAPPERS):
            bare = bare.partition(".")[2]
        if bare not in self._names:
            raise InputError(
                f"{type(self.model).__name__} has no module {name!r}; "
                f"closest: {closest_names(bare, self._names)}."
            )
        return bare

    def _hooks(self, tape: Tape) -> Iterator[tuple[nn.Module, Hook]]:
        """Yield what to watch: the layers and the head; all while the head is not settled."""
        for name in self.layers:
            if not self.is_head_input(name):
                yield self.model.get_submodule(name), self._layer_hook(tape, name)
        if not self.traced:
            for name, module in self.model.named_modules():
                yield module, tape.note_run(name)
        settled = self.traced or self._head_given
        watched = [self._head] if settled else self._linears
        for linear in watched:
            if linear is not None:
                yield self.model.get_submodule(linear), tape.keep_call(linear)

    def _layer_hook(self, tape: Tape, name: str) -> Hook:
        def hook(_: Any, output: Any) -> None:
            tape.layers[name] = self._reduced(first_tensor(output), name)

        return hook

    def _forward(self, images: Any) -> Any:
        if isinstance(images, Mapping):
            arguments = dict(images)
            for key, value in images.items():
                if isinstance(value, np.ndarray | torch.Tensor):
                    arguments[key] = self.prepared(value)
            return self.model(**arguments)
        moved = self.prepared(images)
        try:
            return self.model(moved)
        except RuntimeError as error:
            if moved.dtype != torch.uint8:
                raise
            raise InputError(
                f"the model takes no uint8 images ({error}); preprocess them, zoo.transform(NAME)."
            ) from error

    def prepared(self, images: Any) -> Tensor:
        """Return a batch as a tensor on the device and in the floating-point type of the model."""
        if isinstance(images, np.ndarray):
            images = tensor_of(images)
        if not isinstance(images, torch.Tensor):
            raise InputError(
                f"got {type(images).__name__}; pass a batch as a tensor or array, (n, ...), "
                "or a dict of the model's keyword arguments."
            )
        weight = next((p for p in self.model.parameters() if p.is_floating_point()), images)
        dtype = weight.dtype if images.is_floating_point() else images.dtype
        return images.to(weight.device, dtype)

    def _extraction(self, tape: Tape, output: Any, head: str | None) -> Extraction:
        call = None if head is None else tape.calls.get(head)
        ran = tape.ran or self._ran or []
        if call is None and self._head_given:
            raise InputError(
                f"head {head!r} was never reached in this pass; name one that runs; the last to "
                f"run were {self._listed(ran)}."
            )
        found = dict(tape.layers)
        if self._from_head:
            if call is None:
                raise self._no_head(ran)
            found[PENULTIMATE] = self._head_input(call)
        for name in self.layers:
            if name not in found:
                raise InputError(
                    f"module {name!r} was never reached in this pass; the last to run were "
                    f"{self._listed(ran)}."
                )
        layers = {name: found[name] for name in self.layers}
        return Extraction(layers[self.layers[-1]], self._logits(call, output), layers)

    def _head_input(self, call: Call) -> Tensor:
        """Return what the head was given, one row per input."""
        if call.input.ndim == 2:  # a copy already
            return call.input
        return self._reduced(as_tokens(call.input), PENULTIMATE)

    def _logits(self, call: Call | None, output: Any) -> Tensor | None:
        """Return what the head gave, one row per input, or the model's own logits without one."""
        if call is None:
            return output_logits(output)
        if call.output.ndim <= 2:
            return call.output
        return reduced_logits(as_tokens(call.output), self.reduce)

    def _reduced(self, x: Tensor | None, name: str) -> Tensor:
        with about(f"layer {name!r}"):
            if x is None:
                raise InputError("its output holds no tensor; choose another layer.")
            return reduced(x, self.reduce)

    def _told(self, extraction: Extraction, tape: Tape, output: Any) -> str:
        """Say what the first pass has found."""
        name = self.layers[-1]
        source = "the input of the head" if self.is_head_input(name) else f"the output of {name!r}"
        features = f"features are {source} ({extraction.features.shape[1]} wide)"
        if self._head is None:
            return f"{features}; there is no Linear head."
        call, classes = tape.calls[self._head], self.head_module.out_features
        how = "the last Linear to run; the model returns something else"
        if any(call.gave(tensor) for _, tensor in tensors(output)):
            how = "whose output the model returns"
        return f"{features}; the head is {self._head!r} ({classes} classes), {how}."

    def _no_head(self, ran: list[str]) -> InputError:
        unused = [name for name in self._linears if name not in ran]
        found = "no Linear module that could have"
        if unused:
            found = f"Linear modules that did not run: {listed(unused, quoted=True)}"
        return InputError(
            f"no Linear module gave the output of {type(self.model).__name__} ({found}); pass "
            f"{argument('layer', 'NAME')}; the last modules to run were {self._listed(ran)}."
        )

    def _listed(self, ran: list[str]) -> str:
        """Name the last modules that ran, only leaves, with their types."""
        leaves = []
        for name in ran:
            module = self.model.get_submodule(name)
            if not list(module.children()):
                leaves.append(f"{name!r} ({type(module).__name__})")
        return ", ".join(leaves[-8:]) or "none"


def as_extractor(model: Any) -> FeatureExtractor:
    """Return a FeatureExtractor as it is, or one over a model."""
    return model if isinstance(model, FeatureExtractor) else FeatureExtractor(model)
