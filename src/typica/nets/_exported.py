"""Programs of torch.export (.pt2), changed to return the values asked for."""

from __future__ import annotations

import io
import json
import operator
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from typica.errors import FormatError, InputError
from typica.nets._program import HEADS, PASSES, SCALES, TRAINING, Program, in_training
from typica.nets._result import PENULTIMATE, closest
from typica.nets._torch import torch
from typica.nets._walk import Walk, find_back

_VIEWS = ("alias", "clone", "detach", "permute", "t", "transpose")  # of a weight

# torch.export.load unpickles, evaluates sizes and guards, builds source text out of names, and
# looks operations up by name: what of that a file may hold.
_NATIVE = re.compile(r"/data/aotinductor/|/data/constants/(custom_obj|opaque_obj)")
_PICKLED = re.compile(r"\.pt$|/serialized_(state_dict|constants)\.json$")
_PROGRAM = re.compile(r"/models/|/serialized_exported_program\.json$")
_PLAIN = re.compile(r"[\w.,:;@<>/ +-]*", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OPERATION = re.compile(
    r"torch\.ops\.(aten|prims|quantized|quantized_decomposed|torchvision)\.(?!(from_file|save)\b)\w+(\.\w+)?"
    r"|torch\.ops\.higher_order\.(wrap_with_\w+|cond|while_loop|map_impl|scan|associative_scan)"
    r"|_operator\.(eq|ne|le|ge|lt|gt|neg|pos|add|sub|mul|truediv|floordiv|mod|pow|and_|or_|not_|getitem|lshift|rshift)"
    r"|torch\._?sym_\w+|math\.[a-z]\w*",
    re.ASCII,
)
_EXPRESSION = re.compile(r"[\w\s.,'()<>=!~&|*+/%\[\]-]*", re.ASCII)
_WORD = re.compile(
    r"_?[a-z]{1,4}\d+|OpaqueUnaryFn_\w+"
    r"|Symbol|Integer|Float|Rational|Add|Mul|Pow|Mod|Max|Min|Abs|floor|ceiling|Eq|Ne|Lt|Le|Gt|Ge|And|Or|Not"
    r"|Equality|Unequality|StrictLessThan|LessThan|StrictGreaterThan|GreaterThan|Piecewise|ExprCondPair|ITE"
    r"|FloorDiv|ModularIndexing|Where|PythonMod|CleanDiv|CeilToInt|FloorToInt|CeilDiv|LShift|RShift|PowByNatural"
    r"|FloatPow|FloatTrueDiv|IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncToFloat|TruncToInt|RoundToInt"
    r"|RoundDecimal|ToFloat|Identity|true|false|True|False|oo|inf|int_oo|positive|integer|nonnegative|negative|zero"
    r"|real|precision|evaluate|L|size|stride|storage_offset|and|or|not|math|sqrt",
    re.ASCII,
)


def load_exported(
    path: Path, layers: Sequence[str], named: bool, device: Any, where: str
) -> Program:
    """Check a file of torch.export, which torch.export.load does not, read it and return it as a program.

    layers: names of nodes or of modules, "penultimate" for the head's input; `named` says that a
    value of that name goes before it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _check_archive(path, where)
            exported = torch.export.load(path)
            if device is not None and torch.device(device).type != "cpu":
                exported = torch.export.passes.move_to_device_pass(exported, device)
            module = exported.module()
    except FormatError:
        raise
    except (
        Exception
    ) as error:  # what a foreign or damaged archive raises differs between torch's versions
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
        raise FormatError(
            f"{where}: {path} is not a program of torch.export that this torch {torch.__version__} reads ({reason}); "
            "export it again with torch.export.save."
        ) from error
    return _Exported(module, path, where).program(exported, layers, named)


def _check_archive(path: Path, where: str) -> None:
    """Refuse an archive that could run code when torch.export.load reads it."""
    for entry, read in _entries(path):
        name = f"/{entry.casefold()}"  # PyTorch's reader takes names in any case
        found: str | None = None
        if _NATIVE.search(name):
            found = "custom objects or compiled code"
        elif _PICKLED.search(name):
            found = _found_in_pickle(content) if (content := read()) else None
        elif _PROGRAM.search(name):
            found = _found_in_program(json.loads(read()))
        elif name.endswith("_config.json") and any(
            x["use_pickle"] for x in json.loads(read())["config"].values()
        ):
            found = "pickled weights"
        if found is not None:
            raise FormatError(
                f"{where}: {path} is refused: its entry {entry} holds {found[:200]}, which could run code; export a "
                "model of plain tensors and PyTorch's own operations, or, where the file is trusted, load it in a "
                "function of yours and pass package.module:function."
            )


def _entries(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield names and contents as both readers see them that torch.export.load may use: they can differ."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            yield info.filename, partial(archive.read, info)
    try:
        reader = torch._C.PyTorchFileReader(str(path))
    except RuntimeError:  # as of the archives before torch 2.8, which zipfile reads
        return
    for name in reader.get_all_records():
        yield name, partial(reader.get_record, name)


def _found_in_pickle(content: bytes) -> str | None:
    try:
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # of torch, zip or pickle, as the content is
        return f"a pickle of more than tensors ({next(iter(re.findall(r'GLOBAL [^ ]+', str(error))), 'unknown')})"
    for keys, leaf in torch.utils._pytree.tree_flatten_with_path(loaded)[0]:
        for text in [
            *(getattr(key, "key", "") for key in keys),
            *([leaf] if isinstance(leaf, str) else []),
        ]:
            if not _PLAIN.fullmatch(str(text)):
                return f"the text {text!r}"  # which would become part of a guard
    return None


def _found_in_program(document: Any) -> str | None:
    """Return what a program's JSON holds that is no name, operation or size, or None."""
    waiting: list[tuple[str, Any, bool]] = [("", document, False)]
    while waiting:
        key, value, quoted = waiting.pop()
        if isinstance(value, dict):
            is_node = isinstance(value.get("target"), str)
            if {"__enum__", "default_factory_module", "as_custom_obj", "custom_obj"} & set(value):
                return "a custom object"
            for name, item in value.items():
                waiting.append(("", name, False))
                told = (
                    is_node and name == "metadata"
                )  # where a node came from, in words that are only kept
                inner = (
                    [part for part in item.values() if not isinstance(part, str)] if told else item
                )
                waiting.append((name, inner, quoted or (is_node and name == "inputs")))
        elif isinstance(value, list):
            waiting += [(key, item, quoted) for item in value]
        elif isinstance(value, str):
            if key in ("in_spec", "out_spec") or (key == "context" and value[:1] in tuple('[{"')):
                waiting.append(("", json.loads(value), False))
            elif not _is_allowed(key, value, quoted):
                return f"the text {value!r}"
    return None


def _is_allowed(key: str, text: str, quoted: bool) -> bool:
    match key:
        case "target" | "as_operator":
            return _OPERATION.fullmatch(text) is not None
        case "expr_str" | "guards_code":
            words = _NAME.findall(re.sub(r"\['\w+'\]", "", text) if key == "guards_code" else text)
            return _EXPRESSION.fullmatch(text) is not None and all(map(_WORD.fullmatch, words))
        case "forward_arg_names":
            return _NAME.fullmatch(text) is not None
        case "as_string" | "as_strings" if (
            quoted
        ):  # an argument of a node, such as the message of an assertion
            return True
    return _PLAIN.fullmatch(text) is not None


class _Exported:
    """An exported program's graph, with names for its values."""

    def __init__(self, module: Any, path: Path, where: str) -> None:
        self.module, self.path, self.where = module, path, where
        self.graph = module.graph
        nodes = list(self.graph.nodes)
        self.inputs = [node for node in nodes if node.op == "placeholder"]
        calls = [node for node in nodes if node.op == "call_function"]
        self.nodes = {node.name: node for node in calls}
        self.modules = {
            name: node for node in calls for name in _modules_around(node)
        }  # the last node in each
        if len(self.inputs) != 1:
            names = ", ".join(node.name for node in self.inputs) or "nothing"
            raise InputError(f"{where}: {path} takes {names}; export a model of images alone.")
        for node in calls:
            at = TRAINING.get(_kind(node))
            if at is not None and len(node.args) > at and node.args[at] is True:
                raise in_training(path, where)

    def program(self, exported: Any, layers: Sequence[str], named: bool) -> Program:
        """Return the program that gives the layers and then the logits."""
        head = self._head(exported)
        from_head = PENULTIMATE in layers and not (
            named and PENULTIMATE in {*self.nodes, *self.modules}
        )
        if head is None and from_head:
            raise InputError(
                f"{self.where}: no linear layer gives the output of {self.path}; "
                f"pass layer=NAME, one of {closest('', list(self.nodes))}."
            )
        values = [
            head.args[HEADS[_kind(head)][0]] if from_head and n == PENULTIMATE else self._value(n)
            for n in layers
        ]
        logits = head if head is not None else self._returned(exported)
        function = self._returning([*values, *([] if logits is None else [logits])])
        dtype, sizes = self.inputs[0].meta["val"].dtype, _sizes(exported, self.inputs[0])
        if head is None:
            return Program(function, None, None, dtype, sizes, from_head)
        weight, bias = (
            self._constant(head.args[i]) if i < len(head.args) else None
            for i in HEADS[_kind(head)][1:]
        )
        scales = [head.kwargs.get(name, 1) for name in ("alpha", "beta")]
        made = Program.of(function, weight, bias, scales, turned=_kind(head) == "addmm")
        return made._replace(dtype=dtype, sizes=sizes, from_head=from_head)

    def _head(self, exported: Any) -> Any:
        def passes(node: Any) -> bool:
            kind = _kind(node)
            return kind in PASSES or (
                kind in SCALES and not isinstance(node.args[1], torch.fx.Node)
            )

        def linear(node: Any) -> Any:
            places = HEADS.get(_kind(node), ())[1:]
            known = all(
                i >= len(node.args) or node.args[i] is None or self._is_constant(node.args[i])
                for i in places
            )
            return node if places and known else None

        walk = Walk(self.nodes, lambda node: (value.name for value in node.all_input_nodes), passes)
        return find_back(
            walk, [(name, node.name) for name, node in self._outputs(exported)], linear
        )

    def _outputs(self, exported: Any) -> list[tuple[str, Any]]:
        """Return the nodes that the program returns, with the names that a dict gives them."""
        returned = next(node for node in self.graph.nodes if node.op == "output").args[0]
        spec = exported.call_spec.out_spec
        return list(_leaves(torch.utils._pytree.tree_unflatten(returned, spec)))

    def _returned(self, exported: Any) -> Any:
        """Return the node that gives the logits of a program without a head: of that name, else the first matrix."""
        found = [
            (name, n)
            for name, n in self._outputs(exported)
            if getattr(n.meta.get("val"), "ndim", 0) == 2
        ]
        return next(
            (node for name, node in found if name == "logits"), found[0][1] if found else None
        )

    def _value(self, name: str) -> Any:
        node = self.nodes.get(name) or self.modules.get(name)
        if node is None:
            names = [*self.modules, *self.nodes]
            raise InputError(
                f"{self.where}: {self.path} has no layer {name!r}; closest: {closest(name, names)}."
            )
        if not hasattr(node.meta.get("val"), "ndim"):
            raise InputError(f"{self.where}: layer {name!r} gives no single tensor; name another.")
        return node

    def _returning(self, values: list[Any]) -> Any:
        """Return the module, changed to return a tuple of the values, each a copy: a later step may overwrite it."""
        copies = []
        for value in values:
            with self.graph.inserting_after(value):
                copies.append(self.graph.call_function(torch.ops.aten.clone.default, (value,)))
        end = next(node for node in self.graph.nodes if node.op == "output")
        end.args = (tuple(copies),)
        self.module.requires_grad_(False)  # or a tracer takes its weights for inputs
        self.graph.set_codegen(torch.fx.graph.CodeGen())
        self.module.recompile()
        return self.module

    def _is_constant(self, node: Any) -> bool:
        while _kind(node) in _VIEWS:
            node = node.args[0]
        return bool(node.op == "get_attr")

    def _constant(self, node: Any) -> Any:
        """Return the tensor that a node always gives."""
        if not isinstance(node, torch.fx.Node):
            return node
        views = []
        while node.op != "get_attr":
            views.append(node)
            node = node.args[0]
        value = operator.attrgetter(node.target)(self.module)
        with torch.no_grad():
            for view in reversed(views):
                value = view.target(value, *view.args[1:])
        return value


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, torch.fx.Node):
        yield name, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, str(key))
    elif isinstance(value, tuple | list):
        for key, item in zip(getattr(value, "_fields", value), value, strict=True):
            yield from _leaves(item, key if isinstance(key, str) else name)


def _modules_around(node: Any) -> Iterator[str]:
    """Yield the dotted names of the modules that a node was in, without the mark of a repeated call."""
    for name, _ in (node.meta.get("nn_module_stack") or {}).values():
        yield re.sub(r"@\d+$", "", str(name))


def _kind(node: Any) -> str:
    """Return the name of the ATen operation, without its overload."""
    if node.target is operator.getitem:
        return "getitem"
    packet = getattr(node.target, "overloadpacket", None)
    return packet.__name__ if packet is not None else ""


def _sizes(exported: Any, images: Any) -> tuple[int, int | None]:
    """Return the fewest and the most images that an exported program takes at once."""
    size = images.meta["val"].shape[0]
    if isinstance(size, int):
        return size, size
    allowed = exported.range_constraints.get(size.node.expr)
    if allowed is None:
        return 1, None
    return max(int(allowed.lower), 1), int(allowed.upper) if allowed.upper < 2**31 else None
