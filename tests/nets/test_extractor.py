"""Features out of models of every shape, the head found, and nothing left behind on the model."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
import threading
import warnings
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from helpers import networks
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import relu

import typica
from typica.nets import FeatureExtractor
from typica.nets._reduce import reduced


class Conv(networks.CNN):
    """The head is defined first and runs last; a Linear module is defined last and never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Linear(6, 9)


class ViT(networks.ViT):
    def forward(self, x):
        return self.head(self.penultimate(x))


@dataclass
class Output:
    loss: object
    logits: torch.Tensor


class Pair(NamedTuple):
    embedding: torch.Tensor
    logits: torch.Tensor


class ModelOutput(OrderedDict):
    """As Hugging Face models give: a dict whose keys are attributes too."""


class Wrapped(nn.Module):
    """Gives the output of a model in another form."""

    def __init__(self, model: nn.Module, form) -> None:
        super().__init__()
        self.inner = model
        self.projection = nn.Linear(3, 5)
        self.form = form

    def forward(self, x):
        logits = self.inner(x)
        return self.form(logits, self.projection(logits))


def images(n: int = 4, side: int = 8, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(
        np.random.default_rng(seed).normal(size=(n, 3, side, side)).astype(np.float32)
    )


@pytest.fixture
def conv() -> Conv:
    torch.manual_seed(0)
    return Conv()


def close(a, b) -> bool:
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def hooks_on(model: nn.Module) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_the_last_linear_to_run_is_the_head_whatever_the_order_of_definition(conv):
    x = images()
    extractor = FeatureExtractor(conv)
    batch = extractor(x)
    with torch.no_grad():
        conv.eval()
        assert torch.equal(batch.features, conv.penultimate(x))
        assert torch.equal(batch.logits, conv(x))
    assert extractor.head == typica.Head(conv.fc.weight, conv.fc.bias)
    assert np.allclose(
        extractor.head.logits(batch.features.numpy()), batch.logits.numpy(), atol=1e-6
    )
    assert not batch.features.requires_grad and not batch.logits.requires_grad


@settings(max_examples=20)
@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=5),
    st.integers(0, 99),
    st.booleans(),
    st.booleans(),
)
def test_the_head_relates_features_and_logits_of_any_mlp(widths, seed, bias, softmax):
    torch.manual_seed(seed)
    layers = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b, bias=bias), nn.ReLU(inplace=True)]
    layers += [nn.Linear(widths[-1], 3, bias=bias)] + [nn.Softmax(1)] * softmax
    model = nn.Sequential(*layers).double()
    extractor = FeatureExtractor(model)
    batch = extractor(torch.randn(5, widths[0], dtype=torch.float64))
    weight, offset = extractor.head.weight, extractor.head.bias
    assert np.allclose(batch.features.numpy() @ weight.T + offset, batch.logits.numpy(), atol=1e-12)
    assert weight.shape == (3, widths[-1]) and weight.dtype == np.float64


def test_a_transformer(conv):
    torch.manual_seed(0)
    model = ViT().eval()
    x = images()
    extractor = FeatureExtractor(model)
    with torch.no_grad():
        tokens = model.tokens(x)
        assert close(extractor(x).features, model.norm(tokens)[:, 0])
        assert close(extractor(x).logits, model(x))
    assert extractor.head.weight.shape == (3, 8)
    assert close(
        FeatureExtractor(model, "norm", reduce="cls")(x).features, model.norm(tokens)[:, 0].detach()
    )
    assert close(
        FeatureExtractor(model, "norm", reduce="mean")(x).features,
        model.norm(tokens).mean(1).detach(),
    )
    assert FeatureExtractor(model, "attention", reduce="cls")(x).features.shape == (
        4,
        8,
    )  # its output is a tuple


@pytest.mark.parametrize("dims", [(5,), (2, 5)])
def test_a_head_that_runs_over_tokens_keeps_logits_and_features_related(dims):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    x = torch.randn(7, *dims, 4)
    with torch.no_grad():
        hidden = model[1](model[0](x)).reshape(7, -1, 6)
    for reduce, expected in (("mean", hidden.mean(1)), ("cls", hidden[:, 0])):
        extractor = FeatureExtractor(model, reduce=reduce)
        batch = extractor(x)
        assert close(batch.features, expected)
        assert np.allclose(
            extractor.head.logits(batch.features.numpy()), batch.logits.numpy(), atol=1e-6
        )


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_a_head_that_is_a_sequential(n_outputs):
    torch.manual_seed(0)
    head = nn.Sequential(
        nn.Linear(12, 5), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(5, n_outputs)
    )
    model = nn.Sequential(nn.Flatten(), head, nn.Flatten(0) if n_outputs == 1 else nn.LogSoftmax(1))
    x = torch.randn(4, 3, 2, 2)
    extractor = FeatureExtractor(model)
    batch = extractor(x)
    with torch.no_grad():
        assert close(batch.features, relu(head[0](x.flatten(1))))
        assert close(batch.logits, head[3](batch.features))
    assert "'1.3'" in extractor.describe() and "returns something else" in extractor.describe()


FORMS = {
    "tuple": lambda logits, other: (other.detach() * 2, logits),
    "list in dict": lambda logits, other: {"out": [logits]},
    "named": lambda logits, other: {"projection": other, "logits": logits},
    "dataclass": lambda logits, other: Output(None, logits),
    "named tuple": lambda logits, other: Pair(other, logits),
    "model output": lambda logits, other: ModelOutput(
        loss=None, logits=logits, hidden_states=(other,)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_outputs_of_every_form(conv, form):
    model = Wrapped(conv, FORMS[form])
    extractor = FeatureExtractor(model)
    batch = extractor(images())
    conv.eval()
    with torch.no_grad():
        assert torch.equal(batch.logits, conv(images()))
        assert torch.equal(batch.features, conv.penultimate(images()))
    assert "'inner.fc' (3 classes), whose output the model returns" in extractor.describe()


def test_a_linear_module_that_runs_twice_counts_where_it_ran_last():
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.a(self.b(self.a(x))).softmax(1)

    model = Recurrent()
    x = torch.randn(4, 3)
    batch = FeatureExtractor(model)(x)
    with torch.no_grad():
        assert close(batch.features, model.b(model.a(x))) and close(
            batch.logits, model.a(batch.features)
        )


def test_the_head_can_be_named(conv):
    model = Wrapped(conv, lambda logits, other: other)
    assert FeatureExtractor(model)(images()).logits.shape == (4, 5)
    extractor = FeatureExtractor(model, head="inner.fc")
    assert extractor.head.weight.shape == (3, 6)  # before any batch
    batch = extractor(images())
    assert batch.features.shape == (4, 6) and batch.logits.shape == (4, 3)
    model.alias = conv.fc
    assert FeatureExtractor(model, head="alias")(images()).logits.shape == (4, 3)
    with pytest.raises(
        typica.InputError, match=r"head 'inner.conv' is not a Linear module; name one of 'inner.fc'"
    ):
        FeatureExtractor(model, head="inner.conv")


def test_a_named_head_over_tokens_with_a_linear_module_after_it():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    tokens = torch.randn(2, 5, 4)
    extractor = FeatureExtractor(model, head="0")
    for _ in range(2):
        found = extractor(tokens)
        with torch.no_grad():
            assert close(found.features, tokens.mean(1))
            assert close(found.logits, model[0](tokens).mean(1))


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module."])
def test_wrappers_are_taken_off(conv, prefix):
    wrapped = nn.DataParallel(conv)
    if "_orig_mod" in prefix:
        wrapped = torch.compile(wrapped, backend="eager")
    expected = FeatureExtractor(conv, layers=["conv", "penultimate"])(images())
    extractor = FeatureExtractor(wrapped, layers=[prefix + "conv", "penultimate"])
    batch = extractor(images())
    assert torch.equal(batch.features, expected.features) and torch.equal(
        batch.logits, expected.logits
    )
    assert list(batch.layers) == ["conv", "penultimate"]
    assert hooks_on(wrapped) == 0


def test_a_model_compiled_in_place_runs_as_it_is(conv):
    expected = FeatureExtractor(conv)(images())
    compiled = []
    conv.compile(backend=lambda graph, _: compiled.append(graph) or graph)
    extractor = FeatureExtractor(conv)
    assert all(torch.equal(extractor(images()).features, expected.features) for _ in range(2))
    assert not compiled


def test_programs_that_take_no_hooks(conv):
    conv.eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own: TorchScript is old
        script = torch.jit.trace(conv, images())
        exported = torch.export.export(conv, (images(),)).module()
    for program in (script, exported):
        with pytest.raises(
            typica.InputError, match="TorchScript and exported programs take no hooks"
        ):
            FeatureExtractor(program)


def test_several_layers_and_what_is_overwritten_in_place(conv):
    x = images()
    conv.eval()
    with torch.no_grad():
        maps = conv.conv(x)
        normed = conv.bn(maps)
    batch = FeatureExtractor(conv, layers=["conv", "bn", "relu", "fc", ""])(x)
    assert close(batch.layers["conv"], maps.mean((2, 3)))
    assert close(
        batch.layers["bn"], normed.mean((2, 3))
    )  # although the ReLU after it writes into its output
    assert close(batch.layers["relu"], relu(normed).mean((2, 3)))
    assert torch.equal(batch.layers["fc"], batch.layers[""])
    assert batch.features is batch.layers[""]
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    assert torch.equal(FeatureExtractor(plain, "0")(x).features, plain[0](x).detach())


class OverwritesAfterTheHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        z = self.body(x)
        y = self.head(z)
        z /= z.norm(dim=1, keepdim=True)
        y /= 10
        return y, z


def test_what_is_overwritten_after_the_head_is_kept_as_the_head_saw_it():
    model, x = OverwritesAfterTheHead(), torch.randn(6, 4)
    extractor = FeatureExtractor(model)
    for _ in range(2):  # the first pass, which finds the head, and the next
        batch = extractor(x)
        assert torch.equal(batch.features, model.body(x).detach())
        assert torch.equal(batch.logits, model.head(batch.features).detach())
    assert "the head is 'head' (2 classes), whose output the model returns" in extractor.describe()


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("mean", lambda a: a.mean((2, 3))),
        ("max", lambda a: a.max((2, 3))),
        ("mean+std", lambda a: a.mean((2, 3)) + a.std((2, 3))),
        ("mean+0.5std", lambda a: a.mean((2, 3)) + 0.5 * a.std((2, 3))),
        ("flatten", lambda a: a.reshape(len(a), -1)),
        (lambda t: t[:, :, 0, 0], lambda a: a[:, :, 0, 0]),
    ],
)
def test_reductions_of_maps(conv, reduce, expected):
    with torch.no_grad():
        maps = conv.conv(images()).double().numpy()
    batch = FeatureExtractor(conv, "conv", reduce=reduce)(images())
    assert np.allclose(batch.features.numpy(), expected(maps), atol=1e-6)
    assert batch.logits.shape == (4, 3)


def test_the_spread_of_maps_and_tokens_of_both_backends():
    rng = np.random.default_rng(0)
    for shape, places in (((4, 3, 5, 2), (2, 3)), ((4, 3, 2, 2, 2), (2, 3, 4)), ((4, 6, 3), (1,))):
        maps = rng.normal(size=shape)
        wanted = maps.mean(places) + 2 * maps.std(places)
        np.testing.assert_allclose(reduced(maps, "mean+2std"), wanted)
        np.testing.assert_allclose(reduced(torch.asarray(maps), "mean+2std").numpy(), wanted)
    flat = torch.ones((2, 3, 4, 4), requires_grad=True)
    reduced(flat, "mean+std").sum().backward()
    assert torch.isfinite(flat.grad).all()


def test_reductions_that_cannot_be(conv):
    with pytest.raises(
        typica.InputError, match="reduce='median' is unknown; choose one of mean, max, cls, flatten"
    ):
        FeatureExtractor(conv, reduce="median")
    with pytest.raises(typica.InputError, match=r"reduce='mean\+-1std' is unknown"):
        FeatureExtractor(conv, reduce="mean+-1std")
    with pytest.raises(
        typica.InputError, match=r"layer 'conv': an output of shape \(4, 6, 3, 3\) has no tokens"
    ):
        FeatureExtractor(conv, "conv", reduce="cls")(images())
    with pytest.raises(
        typica.InputError,
        match=r"reduce turned \(4, 6, 3, 3\) into \(4,\); return one row per input",
    ):
        FeatureExtractor(conv, "conv", reduce=lambda t: t.sum((1, 2, 3)))(images())
    flat = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0), nn.Unflatten(0, (4, 1)), nn.Linear(1, 2))
    with pytest.raises(
        typica.InputError, match=r"layer '1': an output of shape \(4,\) has no features"
    ):
        FeatureExtractor(flat, "1")(torch.randn(4, 3))


class SqueezeExcite(nn.Module):
    """Linear modules inside, a convolution as the head."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.excite = nn.Linear(4, 4)
        self.last = nn.Conv2d(4, 7, 1)

    def forward(self, x):
        x = self.conv(x)
        return self.last(x * self.excite(x.mean((2, 3)))[:, :, None, None]).mean((2, 3))


def test_a_model_without_a_linear_head():
    model = SqueezeExcite()
    extractor = FeatureExtractor(model)
    with pytest.raises(typica.InputError) as error:
        extractor(images())
    for part in (
        "no Linear module gave the output of SqueezeExcite",
        "layer=NAME",
        "'excite' (Linear), 'last' (Conv2d)",
    ):
        assert part in str(error.value)
    assert not extractor.traced and hooks_on(model) == 0
    named = FeatureExtractor(model, "last")
    batch = named(images())
    with torch.no_grad():
        assert close(batch.logits, model(images()))
    with pytest.raises(typica.InputError, match="no Linear module gave the output"):
        _ = named.head
    assert "there is no Linear head" in named.describe()
    headless = nn.Sequential(nn.Conv2d(3, 2, 1), nn.ReLU())
    assert FeatureExtractor(headless, "")(images()).logits is None


def test_layers_that_do_not_exist_or_are_never_reached(conv):
    with pytest.raises(typica.InputError, match=r"Conv has no module 'convv'; closest: 'conv'"):
        FeatureExtractor(conv, "convv")
    extractor = FeatureExtractor(conv, "unused")
    for _ in range(2):
        with pytest.raises(
            typica.InputError,
            match=r"'unused' was never reached.*'drop' \(Dropout\), 'fc' \(Linear\)",
        ):
            extractor(images())
    for layer in (None, "conv"):
        with pytest.raises(
            typica.InputError,
            match=r"head 'unused' was never reached in this pass; .*'fc' \(Linear\)",
        ):
            FeatureExtractor(conv, layer, head="unused")(images())
    assert hooks_on(conv) == 0


def test_a_model_with_a_module_called_penultimate():
    model = nn.Sequential(OrderedDict(penultimate=nn.Linear(3, 4), head=nn.Linear(4, 2)))
    model.penultimate.weight.data *= 0
    x = torch.ones(2, 3)
    assert torch.equal(
        FeatureExtractor(model)(x).features, FeatureExtractor(model, "penultimate")(x).features
    )
    assert FeatureExtractor(nn.Sequential(OrderedDict(penultimate=nn.Linear(3, 2))))(
        x
    ).features.shape == (2, 3)


def test_the_network_itself_is_not_among_the_closest_names(conv):
    with pytest.raises(typica.InputError) as refused:
        FeatureExtractor(conv, layer="zz")
    assert "closest: '" in str(refused.value) and "''" not in str(refused.value)


def test_wrong_arguments(conv):
    with pytest.raises(typica.InputError, match=r"model is a str; pass a torch.nn.Module"):
        FeatureExtractor("resnet")
    for layers in ([], "conv"):
        with pytest.raises(typica.InputError, match=r"pass one name, or layers=\[...\] of several"):
            FeatureExtractor(conv, layers=layers)
    with pytest.raises(typica.InputError, match="pass one name"):
        FeatureExtractor(conv, "conv", layers=["bn"])
    with pytest.raises(typica.InputError, match=r"layers=\['bn', 'bn'\] names one twice"):
        FeatureExtractor(conv, layers=["bn", "bn"])
    with pytest.raises(typica.InputError, match="got list; pass a batch as a tensor or array"):
        FeatureExtractor(conv)([1, 2])
    with pytest.raises(typica.InputError, match=r"takes no uint8 images .* preprocess them"):
        FeatureExtractor(conv)(np.zeros((1, 3, 8, 8), dtype=np.uint8))
    with pytest.raises(RuntimeError, match="channels"):
        FeatureExtractor(conv)(images()[:, :2])
    with pytest.raises(typica.InputError, match="2 Linear modules, and no batch yet"):
        _ = FeatureExtractor(conv).head


def test_inputs_of_every_kind(conv):
    x = images().numpy()
    extractor = FeatureExtractor(conv)
    expected = extractor(images()).features
    assert torch.equal(extractor(x).features, expected)
    assert torch.equal(extractor(x.astype(np.float64)).features, expected)
    assert torch.equal(extractor(x.astype(">f4")).features, expected)
    assert torch.equal(extractor(x[:, ::-1].copy()[:, ::-1]).features, expected)
    x.flags.writeable = False
    assert torch.equal(extractor(x).features, expected)
    assert torch.equal(extractor({"x": x}).features, expected)
    assert FeatureExtractor(conv.double())(x).features.dtype == torch.float64

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(9, 4)
            self.fc = nn.Linear(4, 2)

        def forward(self, ids, mask=None, scale=1.0):
            return {"logits": self.fc(input=(self.embedding(ids) * mask[..., None]).sum(1) * scale)}

    words = {"ids": torch.tensor([[1, 2], [3, 4]]), "mask": np.ones((2, 2)), "scale": 2.0}
    model = Bag()
    batch = FeatureExtractor(model)(words)
    assert close(batch.features, 2 * model.embedding(words["ids"]).sum(1).detach())


def snapshot(model: nn.Module) -> list[object]:
    flags: list[object] = [module.training for module in model.modules()]
    flags += [parameter.requires_grad for parameter in model.parameters()]
    return [*flags, hooks_on(model), *(b.clone() for b in model.buffers())]


def equal(a: list[object], b: list[object]) -> bool:
    return all(
        torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(conv, gradients, fails):
    conv.train()
    conv.bn.eval()
    conv.conv.weight.requires_grad_(False)
    before = snapshot(conv)
    grad_mode = torch.is_grad_enabled()
    extractor = FeatureExtractor(conv)
    extractor(images(), gradients=gradients)
    if fails:
        with pytest.raises(RuntimeError):
            extractor(images()[:, :1], gradients=gradients)
        with pytest.raises(RuntimeError):
            FeatureExtractor(conv, layers=["bn"])(images()[:, :1], gradients=gradients)
        with pytest.raises(typica.InputError):
            FeatureExtractor(conv, "bn", reduce="cls")(images(), gradients=gradients)
    assert equal(snapshot(conv), before)
    assert torch.is_grad_enabled() == grad_mode
    assert all(parameter.grad is None for parameter in conv.parameters())


def test_running_statistics_do_not_move_and_dropout_is_off(conv):
    conv.train()
    before = conv.bn.running_mean.clone()
    extractor = FeatureExtractor(conv, "drop")
    assert torch.equal(extractor(images()).features, extractor(images()).features)
    assert torch.equal(conv.bn.running_mean, before) and conv.training


def test_gradients_with_respect_to_the_input(conv):
    conv.double()
    x = images(2).double().requires_grad_(True)
    batch = FeatureExtractor(conv, layers=["conv", "penultimate"])(x, gradients=True)
    (
        batch.features.square().sum() + batch.layers["conv"].sum() + batch.logits[:, 0].sum()
    ).backward(retain_graph=True)
    conv.eval()
    y = images(2).double().requires_grad_(True)
    penultimate = conv.penultimate(y)
    (
        penultimate.square().sum()
        + conv.conv(y).mean((2, 3)).sum()
        + conv.fc(penultimate)[:, 0].sum()
    ).backward()
    assert torch.allclose(x.grad, y.grad, atol=1e-12)
    assert torch.autograd.grad(batch.layers["conv"].sum(), conv.conv.weight, allow_unused=True) == (
        None,
    )
    with torch.inference_mode():
        assert FeatureExtractor(conv)(y, gradients=True).features.requires_grad


def test_threads_do_not_mix_their_batches(conv):
    conv.train()
    extractor = FeatureExtractor(conv)
    batches = [images(2 + i, seed=i) for i in range(6)]
    expected = [extractor(x).features for x in batches]
    results: dict[int, bool] = {}

    def work(i: int) -> None:
        results[i] = all(
            torch.equal(extractor(batches[i]).features, expected[i]) for _ in range(10)
        )

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(6), True)
    assert conv.training and hooks_on(conv) == 0


def test_a_twin_runs_at_the_same_time_on_the_same_parameters(conv):
    conv.train()
    extractor = FeatureExtractor(conv)
    x = images(3)
    expected = extractor(x).features
    twin = extractor.twin()
    meeting = threading.Barrier(2)

    def meet(*_: object) -> None:
        meeting.wait(60)

    handles = [model.register_forward_pre_hook(meet) for model in (conv, twin.model)]
    with ThreadPoolExecutor(2) as pool:  # each waits, within its pass, for the other's
        for done in [pool.submit(one, x) for one in (extractor, twin)]:
            assert torch.equal(done.result(60).features, expected)
    for handle in handles:
        handle.remove()
    assert conv.training and twin.model.training
    assert hooks_on(conv) == hooks_on(twin.model) == 0
    pairs = zip(conv.parameters(), twin.model.parameters(), strict=True)
    assert all(ours is theirs for ours, theirs in pairs)
    assert twin.fingerprint() == extractor.fingerprint()
    buffers = zip(conv.buffers(), twin.model.buffers(), strict=True)
    assert not any(ours is theirs for ours, theirs in buffers)


def test_the_head_is_read_anew(conv):
    extractor = FeatureExtractor(conv)
    extractor(images())
    conv.fc = nn.Linear(6, 4, bias=False)
    assert extractor.head.weight.shape == (4, 6) and not extractor.head.bias.any()
    assert extractor(images()).logits.shape == (4, 4)


def test_it_says_what_it_found(conv, caplog):
    extractor = FeatureExtractor(conv)
    assert "no batch has been run yet" in extractor.describe()
    with caplog.at_level(logging.INFO):
        extractor(images())
    assert not caplog.messages  # `extract` tells it through typica.progress
    expected = (
        "Conv: features are the input of the head (6 wide); "
        "the head is 'fc' (3 classes), whose output the model"
    )
    assert extractor.describe().startswith(expected)
    assert repr(extractor) == "FeatureExtractor(Conv, layers=['penultimate'], head='fc')"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_torch_is_loaded_when_it_is_needed_and_named_when_it_is_missing():
    loaded = python(
        "import sys, typica, typica.nets; typica.nets.zoo.list_architectures(); "
        "print('torch' in sys.modules)"
    )
    assert loaded.stdout.strip() == "False", loaded.stderr
    missing = python(
        "import sys; sys.modules['torch'] = None\nfrom typica.nets import FeatureExtractor"
    )
    assert "InputError: torch is not installed; install the extra 'torch'" in missing.stderr
    with pytest.raises(AttributeError, match="attribute Nothing"):
        _ = typica.nets.Nothing  # type: ignore[attr-defined]
    assert "FeatureExtractor" in dir(typica.nets)


def test_outputs_have_the_names_that_are_given():
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    extractor = FeatureExtractor(model, classes=["cat", "dog"])
    batch = extractor(torch.rand(20, 4))
    assert extractor.head.classes.tolist() == ["cat", "dog"]
    labels = np.repeat(["cat", "dog"], 10)
    assert typica.Energy(head=extractor.head).fit(batch.features, labels)
    with pytest.raises(typica.InputError, match=r"class names of shape \(3,\) for 2 rows"):
        _ = FeatureExtractor(model, head="2", classes=["cat", "dog", "emu"]).head
