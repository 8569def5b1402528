"""What happens inside a model during one forward pass, found with hooks that never outlive it."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from typica.nets._extracted_batch import is_float_matrix, returned_logits
from typica.nets._torch import Tensor, nn, torch

# A pass of an extractor sets hooks and flags on the model, which threads share.
ONE_AT_A_TIME = threading.RLock()

WRAPPERS = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before names

Hook = Callable[[Any, Any], None]  # (the module's input, its output)


def is_opaque(model: nn.Module) -> bool:
    """Tell whether a model takes no hooks: TorchScript, or torch.export, whose `eval` refuses."""
    exported = isinstance(model, torch.fx.GraphModule) and "eval" in vars(model)
    return exported or isinstance(model, torch.jit.ScriptModule)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside DataParallel and its like and torch.compile; itself otherwise."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif hasattr(model, "_orig_mod"):
            model = model._orig_mod
        else:
            return model


@contextmanager
def evaluating(model: nn.Module, gradients: bool) -> Iterator[None]:
    """Put the model in eval mode for a while, with gradients for its input alone or none."""
    modes = [(module, module.training) for module in model.modules()]
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    with ExitStack() as stack:
        stack.callback(_set, modes, flags)
        model.eval()
        if any(getattr(module, "_compiled_call_impl", None) is not None for module, _ in modes):
            # Otherwise every set of hooks is compiled again.
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        if gradients:
            _set([], [(parameter, False) for parameter, _ in flags])
            stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(gradients))
        yield


def _set(modes: list[tuple[nn.Module, bool]], flags: list[tuple[Tensor, bool]]) -> None:
    for module, training in modes:
        module.training = training
    for parameter, requires_grad in flags:
        if parameter.requires_grad != requires_grad:
            parameter.requires_grad_(requires_grad)


@contextmanager
def hooked(hooks: Iterable[tuple[nn.Module, Hook]]) -> Iterator[None]:
    """Call each hook with the input and output of its module when it runs in this thread."""
    thread = threading.get_ident()

    def adapted(hook: Hook) -> Callable[..., None]:
        # Torch leaves keywords out when another thread has just taken the hook off.
        def call(_: nn.Module, args: Any, *rest: Any) -> None:
            if threading.get_ident() == thread:
                hook(next(iter(args or rest[0].values()), None), rest[-1])

        return call

    handles = []
    try:
        for module, hook in hooks:
            handles.append(module.register_forward_hook(adapted(hook), with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def tensors(
    output: Any, name: str = "", kind: type[Any] = torch.Tensor
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of an output with their names: tensor, tuple, dict, dataclass, nested.

    kind: what stands for a tensor, where it is something else.
    """
    if isinstance(output, kind):
        yield name, output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            yield from tensors(value, str(key), kind)
    elif dataclasses.is_dataclass(output):
        for field in dataclasses.fields(output):
            yield from tensors(getattr(output, field.name), field.name, kind)
    elif isinstance(output, tuple | list):
        for key, value in zip(getattr(output, "_fields", output), output, strict=True):
            yield from tensors(value, key if isinstance(key, str) else name, kind)


class Call(NamedTuple):
    """One run of a Linear module: copies of input and output, as these may change; the output."""

    input: Tensor
    output: Tensor
    made: Tensor

    @classmethod
    def of(cls, x: Tensor, output: Tensor) -> Call:
        """Return a run as it is seen in a hook."""
        return cls(x.clone(), output.clone(), output)

    def gave(self, tensor: Tensor) -> bool:
        """Tell whether a tensor is the output, or equals it in every respect."""
        return tensor is self.made or same(self.output, tensor)


class Calls(dict[str, Call]):
    """The last run of each of several Linear modules, in order of execution.

    Outputs with one row per input are kept for all of them, they are small; those of tokens only
    for the very last, as a transformer's would fill the memory.
    """

    def keep(self, name: str, call: Call) -> None:
        """Note a run."""
        self.pop(name, None)
        large = [other for other, earlier in self.items() if earlier.output.ndim != 2]
        for other in large:
            del self[other]
        self[name] = call


class Tape:
    """What one pass leaves: the features of layers, the runs of Linear modules, what ran."""

    def __init__(self) -> None:
        self.layers: dict[str, Tensor] = {}
        self.calls = Calls()
        self.ran: list[str] = []

    def note_run(self, name: str) -> Hook:
        """Return a hook that notes that a module ran."""
        return lambda *_: self.ran.append(name)

    def keep_call(self, name: str) -> Hook:
        """Return a hook that keeps the run of a Linear module."""
        return lambda x, output: self.calls.keep(name, Call.of(x, output))


def head_name(calls: Calls, output: Any) -> str | None:
    """Return the name of the Linear module that gave the logits of an output, or None.

    That is the one that gave the tensor called "logits", else the last to run whose output is among
    the model's, else the last to run, if the model's output may come from it: softmax, squeezing
    and pooling tokens keep the number of values or the number of classes.
    """
    returned = list(tensors(output))
    named_logits = [tensor for key, tensor in returned if key == "logits"]
    for wanted in (named_logits, [tensor for _, tensor in returned]):
        for name, call in reversed(calls.items()):
            if any(call.gave(tensor) for tensor in wanted):
                return name
    last = next(reversed(calls), None)
    if last is not None and may_come_from(output, calls[last].output):
        return last
    return None


def same(x: Tensor, y: Tensor) -> bool:
    """Tell whether two tensors that hooks have seen are equal in every respect."""
    return (x.shape, x.dtype, x.device) == (y.shape, y.dtype, y.device) and bool(torch.equal(x, y))


def may_come_from(output: Any, logits: Tensor) -> bool:
    """Tell by its shapes whether an output may come from these logits; yes without a tensor."""
    shapes = [tensor.shape for _, tensor in tensors(output)]
    return not shapes or any(
        shape.numel() == logits.numel() or shape[-1:] == logits.shape[-1:] for shape in shapes
    )


def first_tensor(output: Any) -> Tensor | None:
    """Return the first tensor of a layer's output, or None."""
    return next((tensor for _, tensor in tensors(output)), None)


def as_tokens(x: Tensor) -> Tensor:
    """Return a Linear module's input or output (n, ..., m) as (n, m) or tokens (n, t, m)."""
    return x if x.ndim <= 3 else x.flatten(1, -2)


def output_logits(output: Any) -> Tensor | None:
    """Return the logits of a model without a head: of that name, else the first matrix, or None."""
    return returned_logits(tensors(output), is_float_matrix)
