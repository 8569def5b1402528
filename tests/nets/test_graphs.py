"""TorchScript and torch.export files: features by the modules they were made of, fixed batches, and bad files."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import NETWORKS, close, expected, images, network, torch_is_talkative
from torch import nn

import typica
from typica.nets import GraphExtractor
from typica.nets._source import reopen


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def write(folder: Path, name: str, how: str) -> Path:
    """Write a network, once, in one of the ways that there are."""
    path = folder / f"{name}-{how}{'.pt' if how in ('traced', 'scripted') else '.pt2'}"
    if path.exists():
        return path
    model, x = network(name), torch.from_numpy(images(4))
    dynamic = {"x": {0: torch.export.Dim.AUTO}} if how == "dynamic" else None
    with torch_is_talkative():
        if how == "traced":
            torch.jit.trace(model, x, check_trace=False, strict=False).save(path)
        elif how == "scripted":
            torch.jit.script(model).save(path)
        else:
            program = torch.export.export(model, (x,), dynamic_shapes=dynamic)
            torch.export.save(
                program.run_decompositions() if how == "decomposed" else program, path
            )
    return path


WAYS = [
    (name, how)
    for name in NETWORKS
    for how in ("traced", "scripted", "fixed", "dynamic", "decomposed")
]


@pytest.mark.parametrize(("name", "how"), WAYS)
def test_features_logits_and_head(folder, name, how):
    path, model, x = write(folder, name, how), network(name), images(7)
    extractor = GraphExtractor(path, batch=4 if (name, how) == ("vit", "traced") else None)
    features, logits = expected(model, x)
    for n in (7, 4, 1):
        batch = extractor(x[:n])
        assert close(batch.features, features[:n]) and close(batch.logits, logits[:n]), n
    assert isinstance(batch.features, torch.Tensor) and not batch.features.requires_grad
    assert batch.features is batch.layers["penultimate"]
    head = model.fc if name == "cnn" else model.head
    assert extractor.head == typica.Head(head.weight, head.bias)
    assert close(extractor(torch.from_numpy(x)).features, features)
    assert close(extractor(x.astype(np.float64)).features, features)
    assert extractor.fingerprint() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (
        "features are the input of the head; the head is a linear layer (3 classes)"
        in extractor.describe()
    )
    if how in ("fixed", "decomposed"):
        assert extractor.sizes == (4, 4)
    if (name, how) == ("cnn", "dynamic"):
        assert extractor.sizes[1] is None


def test_a_bounded_batch_is_cut_and_padded(tmp_path):
    model, x = network("cnn"), images(9)
    shapes = {"x": {0: torch.export.Dim("n", min=3, max=5)}}
    torch.export.save(
        torch.export.export(model, (torch.from_numpy(x[:4]),), dynamic_shapes=shapes),
        tmp_path / "m.pt2",
    )
    extractor = GraphExtractor(tmp_path / "m.pt2")
    assert extractor.sizes == (3, 5)
    for n in (9, 6, 5, 2, 1):
        assert close(extractor(x[:n]).features, expected(model, x[:n])[0])


def test_layers_of_an_exported_program(folder):
    path, model, x = write(folder, "cnn", "dynamic"), network("cnn"), images(3)
    with torch.no_grad():
        maps = model.conv(torch.from_numpy(x))
        normed = model.bn(maps)
        active = normed.relu()
    extractor = GraphExtractor(path, layers=["conv", "bn", "relu_", "penultimate", "fc"])
    batch = extractor(x)
    assert close(batch.layers["conv"], maps.mean((2, 3)))
    assert close(
        batch.layers["bn"], normed.mean((2, 3))
    )  # although the ReLU after it writes into it
    assert close(batch.layers["relu_"], active.mean((2, 3)))
    assert close(batch.layers["penultimate"], expected(model, x)[0])
    assert batch.features is batch.layers["fc"] and close(batch.features, batch.logits)
    assert close(GraphExtractor(path, "relu", reduce="max")(x).features, active.amax((2, 3)))
    assert "features are the output of 'relu'" in GraphExtractor(path, "relu").describe()
    with pytest.raises(typica.InputError, match=r"has no layer 'convv'; closest: 'conv'"):
        GraphExtractor(path, "convv")
    with pytest.raises(typica.InputError, match="pass one name"):
        GraphExtractor(path, "conv", layers=["bn"])


def test_tokens_and_a_layer_called_penultimate(tmp_path):
    torch.manual_seed(0)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.penultimate = nn.Linear(4, 6)
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            return self.head(self.penultimate(x).tanh()).mean(1)

    model, x = Tokens(), torch.randn(5, 2, 4)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    with torch.no_grad():
        before = model.penultimate(x)
    extractor = GraphExtractor(tmp_path / "m.pt2")
    assert close(extractor(x).features, before.tanh().mean(1))
    assert np.allclose(
        extractor.head.logits(extractor(x).features.numpy()), extractor(x).logits.numpy(), atol=1e-6
    )
    assert close(GraphExtractor(tmp_path / "m.pt2", "penultimate")(x).features, before.mean(1))
    assert close(GraphExtractor(tmp_path / "m.pt2", reduce="cls")(x).features, before.tanh()[:, 0])


def test_a_batch_size_that_a_trace_has_baked_in(folder):
    path = write(folder, "vit", "traced")
    with pytest.raises(
        typica.InputError, match=r"images of shape \(7, 3, 8, 8\) do not fit .* batch=N"
    ):
        GraphExtractor(path)(images(7))
    with torch_is_talkative():
        whole = torch.jit.trace(
            nn.Sequential(nn.Linear(4, 3), Baked(), nn.Linear(3, 2)), torch.ones(4, 4)
        )
        whole.save(folder / "baked.pt")
    with pytest.raises(
        typica.InputError, match="gives 4 rows for 2 images: it was made for one batch size"
    ):
        GraphExtractor(folder / "baked.pt")(np.ones((2, 4), dtype=np.float32))


class Baked(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).expand(len(x), 3)


def test_programs_without_a_linear_head(tmp_path):
    model, x = (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten()),
        torch.from_numpy(images(4)),
    )
    with torch_is_talkative():
        torch.jit.trace(model, x).save(tmp_path / "m.pt")
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    with pytest.raises(
        typica.InputError,
        match=r"no linear layer .* aten::flatten, .* export the model as .pt2 or .onnx",
    ):
        GraphExtractor(tmp_path / "m.pt")
    with pytest.raises(
        typica.InputError, match=r"no linear layer gives the output .* pass layer=NAME"
    ):
        GraphExtractor(tmp_path / "m.pt2")
    extractor = GraphExtractor(tmp_path / "m.pt2", "1")
    with torch.no_grad():
        assert close(extractor(x).features, model[1](model[0](x)).mean((2, 3)))
        assert close(extractor(x).logits, model(x))
    assert "there is no linear head" in extractor.describe()
    with pytest.raises(typica.InputError, match="no linear layer gives the output"):
        _ = extractor.head


def test_a_gate_is_no_head(tmp_path):
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(4, 4)

        def forward(self, x):
            return x * self.gate(x)

    with torch_is_talkative():
        torch.jit.trace(Gated(), torch.ones(4, 4)).save(tmp_path / "m.pt")
        torch.export.save(torch.export.export(Gated(), (torch.ones(4, 4),)), tmp_path / "m.pt2")
    for path in (tmp_path / "m.pt", tmp_path / "m.pt2"):
        with pytest.raises(typica.InputError, match="no linear layer"):
            GraphExtractor(path)


def test_programs_made_in_training_mode(tmp_path):
    model, x = network("cnn").train(), torch.from_numpy(images(4))
    with torch_is_talkative():
        torch.jit.trace(model, x, check_trace=False).save(tmp_path / "m.pt")
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    for path in (tmp_path / "m.pt", tmp_path / "m.pt2"):
        with pytest.raises(typica.InputError, match=r"was made in training mode; call model\.eval"):
            GraphExtractor(path)


def test_bad_files_and_arguments(folder, tmp_path):
    with pytest.raises(typica.InputError, match=r"there is no file .*none\.pt"):
        GraphExtractor(tmp_path / "none.pt")
    for name, what in (
        ("text.pt", "not a TorchScript file"),
        ("text.pt2", "not a program of torch.export"),
    ):
        (tmp_path / name).write_text("This is no model.")
        with pytest.raises(typica.errors.FormatError, match=what):
            GraphExtractor(tmp_path / name)
    path = write(folder, "cnn", "traced")
    with pytest.raises(
        typica.InputError,
        match=r"layer 'conv' .* values in TorchScript have no names; leave layer out",
    ):
        GraphExtractor(path, "conv")
    with pytest.raises(typica.InputError, match="reduce='median' is unknown"):
        GraphExtractor(path, reduce="median")
    with pytest.raises(typica.InputError, match="got list; pass a batch as a tensor or array"):
        GraphExtractor(path)([1, 2])
    with pytest.raises(typica.InputError, match=r"images of shape \(4, 1, 8, 8\) do not fit"):
        GraphExtractor(write(folder, "cnn", "fixed"))(images(4)[:, :1])

    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    with torch_is_talkative():
        torch.jit.trace(Two(), (torch.ones(2), torch.ones(2))).save(tmp_path / "two.pt")
        torch.export.save(
            torch.export.export(Two(), (torch.ones(2), torch.ones(2))), tmp_path / "two.pt2"
        )
    with pytest.raises(typica.InputError, match="takes more than images"):
        GraphExtractor(tmp_path / "two.pt")
    with pytest.raises(typica.InputError, match="takes x, y; export a model of images alone"):
        GraphExtractor(tmp_path / "two.pt2")


class Runs:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def changed(source: Path, path: Path, changes: dict[str, object]) -> Path:
    """Copy an archive; a change is an entry's new content, or a function that changes its JSON."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        root = old.namelist()[0].split("/")[0]
        waiting = {f"{root}/{name}": change for name, change in changes.items()}
        for name in [*old.namelist(), *(set(waiting) - set(old.namelist()))]:
            change = waiting.get(name)
            if callable(change):
                document = json.loads(old.read(name))
                change(document)
                change = json.dumps(document).encode()
            new.writestr(name, old.read(name) if change is None else change)
    return path


def graph(document):
    return document["graph_module"]["graph"]


CODE = "__import__('os').mkdir({!r})"
PROGRAM, CONSTANTS = "models/model.json", "data/constants/model_constants_config.json"
ATTACKS = {
    "sample inputs": lambda made: {"data/sample_inputs/model.pt": saved(((Runs(made),), {}))},
    "legacy weights": lambda made: {"data/weights/model.pt": saved({"w": Runs(made)})},
    "legacy constants": lambda made: {
        "data/constants/model.pt": pickle.dumps({"w": Runs(made)}, 2)
    },
    "opaque object": lambda made: {
        "data/constants/opaque_obj_0": pickle.dumps(Runs(made)),
        CONSTANTS: lambda d: d["config"].update(
            x={
                "path_name": "opaque_obj_0",
                "is_param": False,
                "use_pickle": True,
                "tensor_meta": None,
            }
        ),
    },
    "pickled weight": lambda made: {
        "data/weights/weight_0": saved(Runs(made)),
        "data/weights/model_weights_config.json": lambda d: next(iter(d["config"].values())).update(
            use_pickle=True
        ),
    },
    "size": lambda made: {
        PROGRAM: lambda d: graph(d)["tensor_values"]["x"].update(
            sizes=[{"as_expr": {"expr_str": CODE.format(str(made)), "hint": {"as_int": 4}}}]
        )
    },
    "guard": lambda made: {
        PROGRAM: lambda d: d.update(guards_code=[f"{CODE.format(str(made))} is None"])
    },
    "argument name": lambda made: {
        PROGRAM: lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(
            forward_arg_names=[f"x={CODE.format(str(made))}"]
        )
    },
    "key of an input": lambda made: {
        "data/sample_inputs/model.pt": saved(
            (({f'"),{CODE.format(str(made))},("': torch.ones(4)},), {})
        )
    },
    "operation": lambda made: {
        PROGRAM: lambda d: graph(d)["nodes"][0].update(target="torch.os.mkdir")
    },
    "file operation": lambda made: {
        PROGRAM: lambda d: graph(d)["nodes"][0].update(target="torch.ops.aten.from_file")
    },
    "compiled code": lambda made: {"data/aotinductor/model/model.so": b"ELF"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_exported_program_cannot_run_code(folder, tmp_path, attack):
    made = tmp_path / "made"
    path = changed(write(folder, "cnn", "dynamic"), tmp_path / "evil.pt2", ATTACKS[attack](made))
    with pytest.raises(
        typica.errors.FormatError,
        match=r"evil\.pt2 is refused: its entry \S+ holds .* could run code",
    ):
        GraphExtractor(path)
    assert not made.exists()


def test_an_archive_that_is_only_copied_still_loads(folder, tmp_path):
    path = changed(write(folder, "cnn", "dynamic"), tmp_path / "copy.pt2", {})
    assert close(GraphExtractor(path)(images(3)).features, expected(network("cnn"), images(3))[0])


@pytest.mark.parametrize("entry", ["data.pkl", "constants.pkl"])
def test_torchscript_does_not_unpickle_python(folder, tmp_path, entry):
    made = tmp_path / "made"
    path = changed(
        write(folder, "cnn", "traced"), tmp_path / "evil.pt", {entry: pickle.dumps(Runs(made), 2)}
    )
    with pytest.raises(typica.errors.FormatError, match="not a TorchScript file"):
        GraphExtractor(path)
    assert not made.exists()


@pytest.mark.parametrize("ending", [".pt", ".pt2"])
def test_another_file_is_refused_before_it_is_opened(tmp_path, monkeypatch, ending):
    path = tmp_path / f"model{ending}"
    path.write_bytes(b"another program")
    monkeypatch.setattr(
        "typica.nets._source.open_model", lambda *_, **__: pytest.fail("was opened")
    )
    source = {
        "model": path.name,
        "model_file": str(path),
        "weights": "0" * 64,
        "weights_file": None,
    }
    with pytest.raises(
        typica.InputError, match="holds other weights than the detector was fitted with"
    ):
        reopen({**source, "layer": None, "reduce": "mean"}, "detector")


def test_the_same_program_on_a_device(folder):
    extractor = GraphExtractor(write(folder, "cnn", "dynamic"), "conv")
    assert extractor.to("cpu") is extractor
    assert repr(extractor).startswith("GraphExtractor(") and extractor.device == torch.device("cpu")


def test_a_script_that_would_touch_files_is_refused(tmp_path):
    class Writes(nn.Module):
        def __init__(self, file: str) -> None:
            super().__init__()
            self.fc = nn.Linear(4, 2)
            self.file = file

        def forward(self, x):
            return self.fc(x) + torch.from_file(self.file, True, 4)[0]

    target = tmp_path / "made"
    with torch_is_talkative():
        torch.jit.script(Writes(str(target))).save(tmp_path / "m.pt")
    with pytest.raises(
        typica.FormatError, match=r"would touch files \(aten::from_file\), and is refused"
    ):
        GraphExtractor(tmp_path / "m.pt")
    assert not target.exists()
