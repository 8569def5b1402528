"""TorchScript and torch.export files: features, fixed batches, and bad files.

Features go by the modules that the files were made of.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import NETWORKS, close, expected, images, network, torch_is_talkative
from torch import nn

import typica
from typica.nets import GraphExtractor, open_model, reopen
from typica.nets.extractors._exported import load_exported
from typica.origin import Origin

trusted = functools.partial(GraphExtractor, trust=True)


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
    extractor = trusted(path, batch=4 if (name, how) == ("vit", "traced") else None)
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
    extractor = trusted(tmp_path / "m.pt2")
    assert extractor.sizes == (3, 5)
    for n in (9, 6, 5, 2, 1):
        assert close(extractor(x[:n]).features, expected(model, x[:n])[0])


def test_layers_of_an_exported_program(folder):
    path, model, x = write(folder, "cnn", "dynamic"), network("cnn"), images(3)
    with torch.no_grad():
        maps = model.conv(torch.from_numpy(x))
        normed = model.bn(maps)
        active = normed.relu()
    extractor = trusted(path, layers=["conv", "bn", "relu_", "penultimate", "fc"])
    batch = extractor(x)
    assert close(batch.layers["conv"], maps.mean((2, 3)))
    assert close(
        batch.layers["bn"], normed.mean((2, 3))
    )  # although the ReLU after it writes into it
    assert close(batch.layers["relu_"], active.mean((2, 3)))
    assert close(batch.layers["penultimate"], expected(model, x)[0])
    assert batch.features is batch.layers["fc"] and close(batch.features, batch.logits)
    assert close(trusted(path, "relu", reduce="max")(x).features, active.amax((2, 3)))
    assert "features are the output of 'relu'" in trusted(path, "relu").describe()
    with pytest.raises(typica.InputError, match=r"has no layer 'convv'; closest: 'conv'"):
        trusted(path, "convv")
    with pytest.raises(typica.InputError, match="pass one name"):
        trusted(path, "conv", layers=["bn"])


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
    extractor = trusted(tmp_path / "m.pt2")
    assert close(extractor(x).features, before.tanh().mean(1))
    assert np.allclose(
        extractor.head.logits(extractor(x).features.numpy()), extractor(x).logits.numpy(), atol=1e-6
    )
    assert close(trusted(tmp_path / "m.pt2", "penultimate")(x).features, before.mean(1))
    assert close(trusted(tmp_path / "m.pt2", reduce="cls")(x).features, before.tanh()[:, 0])


def test_a_batch_size_that_a_trace_has_baked_in(folder):
    path = write(folder, "vit", "traced")
    with pytest.raises(
        typica.InputError, match=r"images of shape \(7, 3, 8, 8\) do not fit .* batch=N"
    ):
        trusted(path)(images(7))
    with torch_is_talkative():
        whole = torch.jit.trace(
            nn.Sequential(nn.Linear(4, 3), Baked(), nn.Linear(3, 2)), torch.ones(4, 4)
        )
        whole.save(folder / "baked.pt")
    with pytest.raises(
        typica.InputError, match="gives 4 rows for 2 images: it was made for one batch size"
    ):
        trusted(folder / "baked.pt")(np.ones((2, 4), dtype=np.float32))


class Baked(nn.Module):
    def forward(self, x):
        return x.mean(0, keepdim=True).expand(len(x), 3)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten())
        self.fc = nn.Linear(144, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(x))


@pytest.mark.parametrize("how", ["traced", "scripted"])
def test_images_that_do_not_fit_are_an_error_and_not_the_end_of_the_process(tmp_path, how):
    path, model = tmp_path / "nested.pt", Nested().eval()
    with torch_is_talkative():
        made = torch.jit.trace(model, torch.ones(2, 1, 8, 8)) if how == "traced" else None
        (made or torch.jit.script(model)).save(path)
    # In another process: PyTorch would take this one with it.
    code = f"""
import torch
from typica.errors import InputError
from typica.nets import GraphExtractor
extractor = GraphExtractor({str(path)!r}, trust=True)
try:
    extractor(torch.ones(2, 3, 8, 8))
except InputError as error:
    print("do not fit" in str(error), tuple(extractor(torch.ones(2, 1, 8, 8)).features.shape))
"""
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert found.stdout.strip() == "True (2, 144)", found.stderr


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
        match=r"no linear layer .* aten::flatten, .* export the model as .onnx",
    ):
        trusted(tmp_path / "m.pt")
    with pytest.raises(
        typica.InputError, match=r"no linear layer gives the output .* pass layer=NAME"
    ):
        trusted(tmp_path / "m.pt2")
    extractor = trusted(tmp_path / "m.pt2", "1")
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
            trusted(path)


def test_programs_made_in_training_mode(tmp_path):
    model, x = network("cnn").train(), torch.from_numpy(images(4))
    with torch_is_talkative():
        torch.jit.trace(model, x, check_trace=False).save(tmp_path / "m.pt")
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    for path in (tmp_path / "m.pt", tmp_path / "m.pt2"):
        with pytest.raises(typica.InputError, match=r"was made in training mode; call model\.eval"):
            trusted(path)


def test_bad_files_and_arguments(folder, tmp_path):
    with pytest.raises(typica.InputError, match=r"none\.pt: there is no such file"):
        trusted(tmp_path / "none.pt")
    for name, what in (
        ("text.pt", "not a TorchScript file"),
        ("text.pt2", "not a program of torch.export"),
    ):
        (tmp_path / name).write_text("This is no model.")
        with pytest.raises(typica.errors.FormatError, match=what):
            trusted(tmp_path / name)
    path = write(folder, "cnn", "traced")
    with pytest.raises(
        typica.InputError,
        match=r"layer 'conv' .* values in TorchScript have no names; leave layer out",
    ):
        trusted(path, "conv")
    with pytest.raises(typica.InputError, match="reduce='median' is unknown"):
        trusted(path, reduce="median")
    with pytest.raises(typica.InputError, match="got list; pass a batch as a tensor or array"):
        trusted(path)([1, 2])
    with pytest.raises(typica.InputError, match=r"images of shape \(4, 1, 8, 8\) do not fit"):
        trusted(write(folder, "cnn", "fixed"))(images(4)[:, :1])

    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    with torch_is_talkative():
        torch.jit.trace(Two(), (torch.ones(2), torch.ones(2))).save(tmp_path / "two.pt")
        torch.export.save(
            torch.export.export(Two(), (torch.ones(2), torch.ones(2))), tmp_path / "two.pt2"
        )
    with pytest.raises(typica.InputError, match="takes more than images"):
        trusted(tmp_path / "two.pt")
    with pytest.raises(typica.InputError, match="takes x, y; export a model of images alone"):
        trusted(tmp_path / "two.pt2")


@pytest.mark.parametrize("ending", [".pt", ".pt2"])
def test_another_file_is_refused_before_it_is_opened(tmp_path, monkeypatch, ending):
    path = tmp_path / f"model{ending}"
    path.write_bytes(b"another program")
    monkeypatch.setattr(
        "typica.nets._reopen.open_model", lambda *_, **__: pytest.fail("was opened")
    )
    origin = Origin(path.name, "0" * 64, None, "mean", {}, model_file=str(path))
    with pytest.raises(
        typica.InputError, match="holds other weights than the detector was fitted with"
    ):
        reopen(origin, trust=True)


class Best(nn.Module):
    """Gives the two best classes before the logits, which no linear layer gives."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.weight = nn.Linear(4, 5), nn.Parameter(torch.randn(5, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.fc(x).relu() @ self.weight
        return logits.topk(2).indices, logits


def test_whole_numbers_are_no_logits(tmp_path):
    model, x = Best().eval(), torch.randn(6, 4)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "best.pt2")
    found = trusted(tmp_path / "best.pt2", "relu")(x)
    assert close(found.logits, model(x)[1].detach())


def test_the_same_program_on_a_device(folder):
    extractor = trusted(write(folder, "cnn", "dynamic"), "conv")
    assert extractor.to("cpu") is extractor
    assert repr(extractor).startswith("GraphExtractor(") and extractor.device == torch.device("cpu")
    # The one other device that every machine has holds no numbers.
    path = write(folder, "cnn", "dynamic")
    program = load_exported(path, ["penultimate"], named=False, device="meta")
    assert program.weight.device.type == "meta"
    assert program.function(torch.ones(4, *images(1).shape[1:], device="meta"))[0].shape[0] == 4


@pytest.mark.parametrize("how", ["traced", "dynamic"])
def test_what_is_no_device_or_batch_is_not_blamed_on_the_file(folder, how):
    path = write(folder, "cnn", how)
    for device in ("nonsense", "meta"):
        with pytest.raises(typica.InputError, match=f"device='{device}' cannot be used here"):
            trusted(path, device=device)
    for batch in (0, -1, "4", 2.5):
        with pytest.raises(typica.InputError, match=r"batch=.* is not an integer of at least 1"):
            trusted(path, batch=batch)


def test_arrays_that_torch_does_not_take_as_they_are(folder):
    extractor, x = trusted(write(folder, "cnn", "dynamic")), images()
    for same in (x.astype(">f4"), x[:, ::-1].copy()[:, ::-1]):
        assert torch.equal(extractor(same).features, extractor(x).features)


def test_the_ending_of_a_program_in_capitals(folder, tmp_path):
    path = tmp_path / "MODEL.PT2"
    path.write_bytes(write(folder, "cnn", "dynamic").read_bytes())
    assert close(trusted(path)(images()).features, expected(network("cnn"), images())[0])
    assert open_model(path, trust=True).identity.model == "MODEL.PT2"


class Writes(nn.Module):
    """Writes a file when it is loaded: TorchScript runs __setstate__ then."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file
        self.weight = torch.ones(2, 4)

    @torch.jit.export
    def __getstate__(self):
        return self.file, self.weight, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, torch.Tensor, bool]):
        self.file = state[0]
        self.weight = state[1]
        self.training = state[2]
        torch.save(torch.ones(1), self.file)

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def evil_script(folder: Path, made: Path) -> Path:
    path = folder / "evil.pt"
    with torch_is_talkative():
        torch.jit.script(Writes(str(made))).save(path)
    return path


def evil_export(folder: Path, made: Path) -> Path:
    path = folder / "evil.pt2"
    program = torch.export.export(nn.Linear(4, 2), (torch.ones(1, 4),))
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        root = archive.namelist()[0].split("/")[0]
        entries = {name: archive.read(name) for name in archive.namelist()}
    samples = io.BytesIO()
    torch.save(((Runs(made),), {}), samples)
    entries[f"{root}/data/sample_inputs/model.pt"] = samples.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("make", [evil_script, evil_export])
def test_nothing_is_loaded_without_trust(tmp_path, make):
    made = tmp_path / "made"
    path = make(tmp_path, made)
    before = set(tmp_path.iterdir())
    origin = Origin(
        path.name,
        hashlib.sha256(path.read_bytes()).hexdigest(),
        None,
        "mean",
        {"resize": 8, "crop": 8},
        model_file=str(path),
    )
    for load in (GraphExtractor, open_model, lambda _: reopen(origin)):
        with pytest.raises(
            typica.InputError,
            match=r"evil.* can run any code when it is loaded, .* export the model to ONNX "
            r".* package\.module:function, .* agree with trust=True",
        ):
            load(str(path))
        assert set(tmp_path.iterdir()) == before
    with contextlib.suppress(typica.InputError):
        trusted(path)
    assert made.exists()  # so that the test could have failed
