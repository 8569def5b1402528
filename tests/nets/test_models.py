"""Models by a line of text.

Known architectures, files by their ending, functions of the user's, and what is wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import sys

import numpy as np
import pytest
import torch
from helpers.networks import MLP, close, expected, images, network, torch_is_talkative
from torch import nn

import typica
from typica.bank import Bank, BankWriter
from typica.data import Preprocessing
from typica.nets import FeatureExtractor, GraphExtractor, OnnxExtractor, open_model, reopen, zoo
from typica.origin import Origin


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to work in, out of which modules that a test imports are forgotten."""
    monkeypatch.chdir(tmp_path)
    before, path = set(sys.modules), list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]


def test_known_architectures(tmp_path):
    path = tmp_path / "weights.pth"
    model = zoo.load("wideresnet-40-2", weights=None, num_classes=7)
    torch.save(model.state_dict(), path)
    opened = open_model("WideResNet 40-2", path, layer="block3")
    assert opened.transform == zoo.transform("wideresnet-40-2")
    assert opened.identity.to_dict() == {
        "model": "wideresnet-40-2",
        "weights": FeatureExtractor(model).fingerprint(),
        "layer": "block3",
        "reduce": "mean",
    }
    assert open_model(
        "wideresnet-40-2", "random", layers=["block2", "penultimate"]
    ).identity.layer == [
        "block2",
        "penultimate",
    ]
    with pytest.raises(
        typica.InputError, match=r"no weights come with it; pass weights=FILE, or 'random'"
    ):
        open_model("resnet-50")
    with pytest.raises(typica.InputError, match=r"none\.pth: there is no such file"):
        open_model("resnet-50", "none.pth")
    assert open_model("wideresnet-40-2", path, head="fc").identity.head == "fc"


def test_files_by_their_ending(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
    model, x = network("cnn"), torch.from_numpy(images(4))
    with torch_is_talkative():
        for ending in (".pt", ".pth", ".torchscript"):
            torch.jit.trace(model, x).save(tmp_path / f"model{ending}")
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
        torch.onnx.export(model, (x,), tmp_path / "model.onnx", dynamo=False, verbose=False)
    kinds = {".pt": GraphExtractor, ".pth": GraphExtractor, ".torchscript": GraphExtractor}
    for ending, kind in {**kinds, ".pt2": GraphExtractor, ".onnx": OnnxExtractor}.items():
        opened = open_model(tmp_path / f"model{ending}", trust=ending != ".onnx")
        assert type(opened.extractor) is kind and opened.transform is None
        assert close(opened.extractor(images()).features, expected(model, images())[0])
        assert opened.identity.model == f"model{ending}"
        assert opened.identity.weights == opened.extractor.fingerprint()
    assert close(
        open_model(tmp_path / "model.pt2", layer="conv", reduce="max", trust=True)
        .extractor(x)
        .features,
        model.conv(x).amax((2, 3)).detach(),
    )
    for name, value in (("weights", "w.pth"), ("head", "fc")):
        with pytest.raises(
            typica.InputError, match=f"{name}='.*', but the file holds its own; leave {name} out"
        ):
            open_model(str(tmp_path / "model.pt2"), **{name: value})


def test_files_that_are_no_programs(tmp_path):
    torch.save(network("cnn").state_dict(), tmp_path / "state.pth")
    torch.save({"state_dict": network("cnn").state_dict()}, tmp_path / "state.pth.tar")
    for name in ("state.pth", "state.pth.tar"):
        with pytest.raises(
            typica.errors.FormatError,
            match=r"holds weights, not a program.*model=ZOO_NAME weights='.*state",
        ):
            open_model(str(tmp_path / name))
    torch.save(network("cnn"), tmp_path / "whole.pt")
    with pytest.raises(
        typica.errors.FormatError, match=r"pickled module needs code.*package\.module:function"
    ):
        open_model(str(tmp_path / "whole.pt"))
    (tmp_path / "text.pt").write_text("This is no model.")
    with pytest.raises(typica.errors.FormatError, match="not a TorchScript file"):
        open_model(str(tmp_path / "text.pt"), trust=True)
    (tmp_path / "text.pt2").write_text("This is no model.")
    with pytest.raises(typica.errors.FormatError, match=r"not a program of torch\.export"):
        open_model(str(tmp_path / "text.pt2"), trust=True)
    with pytest.raises(typica.InputError, match=r"none\.onnx: there is no such file"):
        open_model(str(tmp_path / "none.onnx"))
    for spec in ("resnet-51", str(tmp_path / "model.xyz")):
        with pytest.raises(
            typica.InputError,
            match=r"not a model; pass a known architecture .* "
            "or package.module:function, or an nn.M",
        ):
            open_model(spec)


CODE = """
import torch
from torch import nn
from typica.nets.zoo import Preprocessing

def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))

def with_weights(path):
    model = plain()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model

def with_transform():
    return plain(), Preprocessing(8, 8)

class Net(nn.Sequential):
    def __init__(self, width=3):
        super().__init__(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))

class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = plain()
    def forward(self, x):
        return self.net(x)

def two(one, other):
    return plain()

def with_a_function():
    return plain(), len

def wrong():
    return "a model"

def broken():
    raise KeyError("layers")

NUMBER = 3
"""


def test_functions_of_the_users(here):
    (here / "my_models.py").write_text(CODE)
    x = np.ones((2, 4), dtype=np.float32)
    opened = open_model("my_models:plain")
    assert opened.extractor(x).features.shape == (2, 3) and opened.transform is None
    assert opened.identity.model == "my_models:plain"
    other = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    torch.save(other.state_dict(), here / "w.pth")
    opened = open_model("my_models:with_weights", str(here / "w.pth"), layer="0")
    assert torch.equal(opened.extractor(x).features, other[0](torch.from_numpy(x)).detach())
    assert open_model("my_models:with_transform").transform.crop == 8
    # What takes no weights is given them afterwards.
    for spec in ("my_models:plain", "my_models:Net"):
        opened = open_model(spec, str(here / "w.pth"), layer="0")
        assert torch.equal(opened.extractor(x).features, other[0](torch.from_numpy(x)).detach())
    # A prefix may be the network's own, below one of a wrapper or not.
    for prefix in ("net.", "module.net."):
        state = {prefix + key: value for key, value in other.state_dict().items()}
        torch.save(state, here / "prefixed.pth")
        opened = open_model("my_models:Wrapped", str(here / "prefixed.pth"), layer="net.0")
        assert torch.equal(opened.extractor(x).features, other[0](torch.from_numpy(x)).detach())
    torch.save(nn.Linear(4, 2).state_dict(), here / "other.pth")
    for spec, weights, message in (
        ("my_models:plane", None, r"has no function 'plane'; it has 'plain'"),
        ("my_models:NUMBER", None, r"has no function 'NUMBER'"),
        (
            "my_models:with_weights",
            None,
            "cannot be called with no arguments .*missing a required argument",
        ),
        ("my_models:two", "w.pth", "cannot be called with the weights alone"),
        ("my_models:Net", "other.pth", r"other.pth does not fit; 4 key\(s\) missing: 0.weight"),
        ("my_models:plain", "gone.pth", "gone.pth: there is no such file"),
        ("my_models.plain", None, r"not a model \(did you mean my_models:plain\?\); pass"),
        (
            "my_models.py",
            None,
            r"name the class or function in it .* \(it has 'plain', .*: model='my_models:broken'",
        ),
        ("my_models:wrong", None, "returned str; return an nn.Module"),
        (
            "my_models:with_a_function",
            None,
            r"returned a module and builtin.*; return it alone, or with its typica\.data\.Prepro",
        ),
        ("my_models:broken", None, r"it raised KeyError \('layers'\); fix the function"),
        (
            "no_such_module:f",
            None,
            "there is no module 'no_such_module'; pass package.module:function",
        ),
    ):
        with pytest.raises(typica.InputError, match=message):
            open_model(spec, weights)
    (here / "needy.py").write_text("import no_such_package")
    with pytest.raises(
        typica.InputError, match="there is no module 'no_such_package'; needy needs it"
    ):
        open_model("needy:f")


TWO_HEADS = """
import torch
from torch import nn

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.a, self.b = nn.Linear(12, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        z = self.body(x.flatten(1))
        return self.a(z), self.b(z.relu())

def two():
    return Two()
"""


def test_a_model_is_opened_again_with_its_head_and_its_code(here, monkeypatch):
    (here / "twos.py").write_text(TWO_HEADS)
    opened = open_model("twos:two", head="a")
    x = np.random.default_rng(0).normal(size=(5, 3, 2, 2)).astype(np.float32)
    source = {
        **opened.identity.to_dict(),
        "transform": Preprocessing(2, 2).to_dict(),
        "model_file": None,
        "weights_file": None,
    }
    origin = opened.origin(Preprocessing(2, 2))
    assert Origin.from_dict(source) == origin.alone()
    again = reopen(origin, model="twos:two").opened
    assert torch.equal(again.extractor(x).features, opened.extractor(x).features)
    with BankWriter(
        "rows", {**opened.identity.to_dict(), "transform": source["transform"]}
    ) as writer:
        writer.write({"features": opened.extractor(x).features.numpy()})
        assert writer.finish().origin == origin.alone()
    found = Bank.open("rows").origin
    origin.check_same(found)
    with pytest.raises(
        typica.InputError, match=r"features of another network, head 'a' in place of 'b'"
    ):
        dataclasses.replace(origin, head="b").check_same(found)
    (here / "twos.py").write_text(TWO_HEADS.replace("self.body(x.", "-self.body(x."))
    monkeypatch.delitem(sys.modules, "twos")
    with pytest.raises(typica.InputError, match="twos:two has changed: its answer to one fixed"):
        reopen(origin, model="twos:two")


def test_reductions_are_told_apart_by_what_they_do(here, monkeypatch):
    (here / "nets_of_mine.py").write_text(CODE)
    (here / "reductions.py").write_text("def squeeze(x):\n    return x.amax((2, 3))\n")
    monkeypatch.syspath_prepend(here)
    import reductions

    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    before = open_model(model, layer="0", reduce=reductions.squeeze)
    assert before.identity.reduce == "reductions:squeeze"
    origin = before.origin(Preprocessing(8, 8))
    reductions.squeeze.__code__ = (lambda x: x.mean((2, 3))).__code__
    after = open_model(model, layer="0", reduce=reductions.squeeze)
    assert after.identity == before.identity
    with pytest.raises(typica.InputError, match="has changed"):
        origin.check_same(after.origin(Preprocessing(8, 8)))
    for nameless in (lambda x: x.mean((2, 3)), functools.partial(torch.amax, dim=(2, 3))):
        with pytest.raises(
            typica.InputError,
            match=r"reduce=.* has no name that tells it from others; pass a function",
        ):
            open_model("nets_of_mine:plain", reduce=nameless)
    monkeypatch.undo()


def test_the_fingerprint_of_a_module():
    model = network("cnn")
    first = FeatureExtractor(model).fingerprint()
    assert first == FeatureExtractor(network("cnn"), "conv").fingerprint() and len(first) == 64
    wrapped = nn.DataParallel(network("cnn"))
    assert FeatureExtractor(wrapped).fingerprint() == first
    changes = [
        lambda m: m.fc.weight.data[0, 0].add_(1e-6),
        lambda m: m.bn.running_mean.add_(1),
        lambda m: m.double(),
        lambda m: m.bfloat16(),
        lambda m: setattr(m, "extra", nn.Parameter(torch.empty(0))),
    ]
    seen = {first}
    for change in changes:
        model = network("cnn")
        change(model)
        seen.add(FeatureExtractor(model).fingerprint())
    assert len(seen) == 1 + len(changes)

    class Other(MLP):
        pass

    torch.manual_seed(0)
    mlp = MLP()
    torch.manual_seed(0)
    assert FeatureExtractor(mlp).fingerprint() != FeatureExtractor(Other()).fingerprint()
    mlp.head.weight = nn.Parameter(
        mlp.head.weight.detach().t().contiguous().t()
    )  # other strides, same values
    torch.manual_seed(0)
    assert FeatureExtractor(mlp).fingerprint() == FeatureExtractor(MLP()).fingerprint()


def test_a_file_of_a_model_needs_no_weights_that_the_detector_remembers(here):
    transform = Preprocessing(32, 32).to_dict()
    origin = Origin(
        "densenet-bc-100", "5f1c", None, "mean", transform, weights_file="/gone/net.pth"
    )
    with pytest.raises(typica.InputError, match=r"absent.onnx: there is no such file; check the"):
        reopen(origin, model="absent.onnx")
    with pytest.raises(typica.InputError, match=r"its weights /gone/net.pth are not there any mor"):
        reopen(origin)
