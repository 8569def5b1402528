"""Images in: the network inside the exported file, from PyTorch, the zoo and an ONNX file."""

from __future__ import annotations

import json

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from helpers.export import session
from helpers.networks import CNN, ViT

from typica import CTM, Energy, Head, InputError
from typica.data import Preprocessing
from typica.export import to_onnx
from typica.nets import Reopened, open_model

SIZE = Preprocessing(16, 16, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.2))


def noise(n: int, side: int = 16) -> np.ndarray:
    return np.random.default_rng(n).random((n, 3, side, side), dtype=np.float32)


def fitted(opened, n: int = 40):
    """Return a calibrated detector of a network's features."""
    rows = opened.extractor(torch.from_numpy(noise(n))).features.numpy()
    detector = CTM().fit(rows, np.arange(n) % 4)
    return detector.calibrate(opened.extractor(torch.from_numpy(noise(60))).features.numpy())


def outputs(model: onnx.ModelProto, images: np.ndarray, **more) -> dict[str, np.ndarray]:
    runtime = session(model)
    names = [value.name for value in runtime.get_outputs()]
    return dict(zip(names, runtime.run(None, {"images": images, **more}), strict=True))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return CNN().eval()


@pytest.fixture(scope="module")
def file(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("net") / "net.onnx"
    graph = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}, "opset_version": 13}
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(network, (torch.from_numpy(noise(2)),), path, dynamo=False, **graph)
    return path


@pytest.mark.parametrize("kind", ["module", "file"])
def test_the_network_is_part_of_the_file(kind, network, file):
    opened = open_model(network)
    detector = fitted(opened)
    model = to_onnx(detector, opened if kind == "module" else file, transform=SIZE)
    onnx.checker.check_model(model, full_check=True)
    assert [value.name for value in model.graph.input] == ["images", "threshold"]
    for n in (1, 5):
        found = outputs(model, noise(n))
        extraction = opened.extractor(torch.from_numpy(noise(n)))
        wanted = detector.judge(extraction.features.numpy())
        np.testing.assert_allclose(found["score"], wanted.score, atol=1e-5)
        np.testing.assert_allclose(found["logits"], extraction.logits.numpy(), atol=1e-5)
        assert np.array_equal(detector.classes_[found["nearest"]], wanted.nearest)
        apart = abs(wanted.score - wanted.threshold) > 1e-6
        assert np.array_equal(found["typical"][apart], wanted.typical[apart])
    above = outputs(model, noise(5), threshold=np.array([2.0], dtype=np.float32))
    assert not above["typical"].any()


def test_a_detector_of_logits_reads_those_of_the_network(network):
    opened = open_model(network)
    logits = opened.extractor(torch.from_numpy(noise(40))).logits.numpy()
    detector = Energy().fit(logits, np.arange(40) % 3)
    found = outputs(to_onnx(detector, opened, transform=SIZE), noise(40))
    np.testing.assert_allclose(found["score"], detector.score_samples(logits), atol=1e-5)


def test_an_image_that_is_not_finite(network):
    images = noise(3)
    images[1, 0, 0, 0] = np.nan
    model = to_onnx(fitted(open_model(network)), network, transform=SIZE)
    found = outputs(model, images)
    assert np.isnan(found["score"]).tolist() == [False, True, False]
    assert not found["typical"][1] and found["nearest"][1] == -1
    assert found["p_value"][1] == 1 / 61


@pytest.mark.parametrize(
    ("transform", "most"),
    [
        (SIZE, 1),
        (Preprocessing(20, 16), 1),
        (Preprocessing((20, 24), 16, interpolation="bicubic"), 7),
        (Preprocessing(16, 16, interpolation="nearest"), 0),
        (Preprocessing(19, 16, mode="BGR"), 1),
    ],
    ids=["resize", "crop", "bicubic", "nearest", "bgr"],
)
@pytest.mark.parametrize("size", [(16, 16), (33, 47), (50, 21), (11, 12)], ids=str)
def test_pixels_are_prepared_as_pillow_does_to_a_level(transform, most, size, network):
    """A network that hands on its input tells what the graph made of the pixels."""
    same = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 2))
    opened = open_model(same)
    rows = opened.extractor(torch.from_numpy(noise(20))).features.numpy()
    detector = CTM().fit(rows, np.arange(20) % 2)
    model = to_onnx(detector, opened, transform=transform, uint8=True)
    model = with_tensor(model, 768)
    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (2, 4, 4, 3)).repeat(-(-size[0] // 4), 1)
    pixels = smooth.repeat(-(-size[1] // 4), 2)[:, : size[0], : size[1]].astype(np.uint8)
    pixels = np.concatenate([pixels, rng.integers(0, 256, (1, *size, 3), dtype=np.uint8)])
    found = outputs(model, pixels)["features"].reshape(-1, 3, 16, 16)
    wanted = transform(list(pixels))
    level = (np.array(transform.std) * 255)[:, None, None]
    assert np.abs((found - wanted) * level).max() <= most + 1e-3
    assert np.abs((found - wanted) * level).mean() <= 0.2


def with_tensor(model: onnx.ModelProto, width: int) -> onnx.ModelProto:
    """Return a model that gives the features as well: the rows whose finiteness it looks at."""
    (first,) = [node for node in model.graph.node if node.op_type == "Where"][:1]
    kept = onnx.ModelProto()
    kept.CopyFrom(model)
    kept.graph.node.append(onnx.helper.make_node("Identity", [first.input[1]], ["features"]))
    kind = onnx.TensorProto.FLOAT
    kept.graph.output.append(onnx.helper.make_tensor_value_info("features", kind, ["N", width]))
    return kept


def test_grey_pixels(network):
    grey = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    opened = open_model(grey)
    transform = Preprocessing(8, 8, mode="L")
    pixels = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), dtype=np.uint8)
    images = transform(list(pixels))
    rows = opened.extractor(torch.from_numpy(images)).features.numpy()
    detector = CTM().fit(rows, np.arange(30) % 3)
    model = to_onnx(detector, opened, transform=transform, uint8=True)
    np.testing.assert_allclose(
        outputs(model, pixels)["score"], detector.score_samples(rows), atol=1e-5
    )


def test_a_network_of_the_zoo_and_what_the_file_says_of_it():
    opened = open_model("resnet-18-cifar", "random")
    rows = opened.extractor(torch.from_numpy(noise(20, 32))).features.numpy()
    detector = CTM().fit(rows, [0, 1] * 10)
    model = to_onnx(detector, "resnet-18-cifar", weights="random")
    found = outputs(model, noise(3, 32))
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert facts["model"] == "resnet-18-cifar" and len(facts["weights"]) == 64
    assert json.loads(facts["transform"]) == opened.transform.to_dict()
    assert found["logits"].shape == (3, 10)


def test_a_network_that_takes_the_number_of_images_for_a_constant():
    torch.manual_seed(0)
    opened = open_model(ViT().eval())
    with pytest.raises(InputError, match="write it yourself with a dynamic batch size"):
        to_onnx(fitted(opened), opened, transform=SIZE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"uint8": True}, "without a network features go in"),
        ({"weights": "net.pth"}, "without a network features go in"),
        ({"transform": SIZE}, "name the network, or leave out transform"),
        ({"trust": True, "transform": {}}, "name the network, or leave out trust, transform"),
        ({"network": "absent.onnx"}, "there is no such file"),
    ],
    ids=["uint8", "weights", "transform", "trust", "absent"],
)
def test_what_cannot_go_together(options, message, network):
    with pytest.raises(InputError, match=message):
        to_onnx(fitted(open_model(network)), **options)


def test_a_network_that_does_not_fit(network):
    opened = open_model(network)
    with pytest.raises(InputError, match="the size of the images is not known"):
        to_onnx(fitted(opened), opened)
    with pytest.raises(InputError, match="6 features, the detector was fitted on 5"):
        to_onnx(CTM().fit(np.tile(np.eye(5), (4, 1)), list(range(5)) * 4), opened, transform=SIZE)
    with pytest.raises(InputError, match="how pixels become the network's input is not known"):
        to_onnx(fitted(opened), opened, uint8=True)
    with pytest.raises(InputError, match="does not resize by lanczos"):
        lanczos = Preprocessing(16, 16, interpolation="lanczos")
        to_onnx(fitted(opened), opened, transform=lanczos, uint8=True)


def test_a_network_that_is_open_is_the_one_of_the_detector(network):
    opened = open_model(network)
    detector = fitted(opened)
    detector.origin_ = opened.origin(SIZE)
    own = to_onnx(detector, opened)
    facts = {entry.key: entry.value for entry in own.metadata_props}
    assert json.loads(facts["transform"]) == SIZE.to_dict()
    # What the network says of its own images is not what the detector has learnt from.
    elsewhere = opened._replace(transform=Preprocessing(32, 32))
    assert to_onnx(detector, elsewhere).graph == own.graph
    assert to_onnx(detector, Reopened(opened, Preprocessing(32, 32))).graph == own.graph
    with pytest.raises(InputError, match="the network is open, and has its weights; leave"):
        to_onnx(detector, opened, weights="net.pth")


@pytest.mark.parametrize(("key", "how"), [("weights", {}), ("reduce", {"reduce": "max"})])
def test_another_network_that_is_open_is_refused(key, how, network):
    detector = fitted(open_model(network))
    detector.origin_ = open_model(network).origin(SIZE)
    torch.manual_seed(1)
    other = CNN().eval() if key == "weights" else network
    opened = open_model(other, **how)._replace(transform=SIZE)
    for given in (opened, Reopened(opened, SIZE)):
        with pytest.raises(InputError, match=f"the network differs in its {key} from the one"):
            to_onnx(detector, given)


def maps_and_head(path) -> None:
    """Write a network that gives logits, maps (n, 6, 14, 14), and the same as tokens."""
    torch.manual_seed(0)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.fc = torch.nn.Conv2d(3, 6, 3), torch.nn.Linear(6, 4)

        def forward(self, x):
            maps = self.conv(x).relu()
            return self.fc(maps.mean((2, 3))), maps, maps.flatten(2).transpose(1, 2)

    names = {"input_names": ["x"], "output_names": ["logits", "maps", "tokens"]}
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(
            Net().eval(), (torch.from_numpy(noise(2)),), path, dynamo=False,
            dynamic_axes={"x": {0: "n"}}, **names,
        )  # fmt: skip


def pooled(rows: np.ndarray, reduce: str) -> np.ndarray:
    """What each name means, over the last axes of maps (n, m, h, w) or the second of tokens."""
    places = (2, 3) if rows.ndim == 4 else (1,)
    factor = {"mean+std": 1.0, "mean+0.5std": 0.5}
    if reduce in factor:
        return rows.mean(places) + factor[reduce] * rows.std(places)
    if reduce == "cls":
        return rows[:, 0]
    return rows.reshape(len(rows), -1) if reduce == "flatten" else getattr(rows, reduce)(places)


BY_NAME = ["mean", "max", "flatten", "mean+std", "mean+0.5std"]


@pytest.mark.parametrize(
    ("layer", "reduce"),
    [(layer, reduce) for layer in ("maps", "tokens") for reduce in BY_NAME] + [("tokens", "cls")],
)
def test_features_of_a_file_are_pooled_as_the_detector_was_fitted(layer, reduce, tmp_path):
    path = tmp_path / "net.onnx"
    maps_and_head(path)
    opened = open_model(path, layer=layer, reduce=reduce)
    images = noise(40)
    [given] = session(onnx.load(path)).run([layer], {"x": images})
    rows = pooled(given.astype(np.float64), reduce)
    found = opened.extractor(images).features
    np.testing.assert_allclose(found, rows, rtol=1e-5, atol=1e-6)
    detector = CTM().fit(found, np.arange(40) % 4)
    exported = outputs(to_onnx(detector, opened, transform=SIZE), images)
    np.testing.assert_allclose(exported["score"], detector.score_samples(found), atol=2e-6)
    np.testing.assert_allclose(
        exported["logits"], session(onnx.load(path)).run(["logits"], {"x": images})[0], atol=1e-5
    )


@pytest.mark.parametrize("layer", ["z", "r", "logits"])
def test_a_file_without_a_head_gives_what_it_returns_as_logits(layer, tmp_path):
    path = tmp_path / "headless.onnx"
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        headless (float[n, 3, 4, 4] x) => (float[n, 3] z, float[n, 3] logits, int64[n, 1] best)
        { r = Relu (x)  g = GlobalAveragePool (r)  z = Flatten (g)
          logits = Sqrt (z)  best = ArgMax <axis = 1> (z) }"""
    )
    path.write_bytes(model.SerializeToString())
    opened, images = open_model(path, layer=layer), noise(40, 4) - 0.5
    found = opened.extractor(images)
    detector = CTM().fit(found.features, np.arange(40) % 3)
    exported = outputs(to_onnx(detector, opened, transform=Preprocessing(4, 4)), images)
    wanted = detector.score_samples(found.features)
    np.testing.assert_allclose(exported["score"], wanted, atol=2e-6)
    np.testing.assert_allclose(exported["logits"], found.logits, atol=1e-6)


@pytest.mark.parametrize("reduce", ["mean", "mean+std", "cls"])
def test_a_head_that_holds_tokens_as_columns(reduce, tmp_path):
    path = tmp_path / "turned.onnx"
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        turned (float[n, 3, 4, 4] x) => (float[n, 2, 16] y)
        <float[2, 3] w = {1, 0, 2, 0, 3, 1}, int64[3] shape = {0, 3, 16}>
        { r = Relu (x)  h = Reshape (r, shape)  y = MatMul (w, h) }"""
    )
    path.write_bytes(model.SerializeToString())
    opened, images = open_model(path, reduce=reduce), noise(40, 4) - 0.5
    rows = pooled(np.maximum(images, 0).reshape(40, 3, 16).transpose(0, 2, 1), reduce)
    np.testing.assert_allclose(opened.extractor(images).features, rows, atol=1e-6)
    detector = CTM().fit(rows, np.arange(40) % 4)
    exported = outputs(to_onnx(detector, opened, transform=Preprocessing(4, 4)), images)
    np.testing.assert_allclose(exported["score"], detector.score_samples(rows), atol=2e-6)


def test_a_file_whose_graph_would_say_something_else_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "net.onnx"
    maps_and_head(path)
    opened = open_model(path, layer="maps", reduce="max")
    detector = CTM().fit(opened.extractor(noise(40)).features, np.arange(40) % 4)
    rows = type(opened.extractor).rows
    monkeypatch.setattr(
        type(opened.extractor),
        "rows",
        lambda self, found, layers: (
            rows(self, {k: v + 0.1 for k, v in found.items()}, layers)
            if not isinstance(found["maps"], np.ndarray)
            else rows(self, found, layers)
        ),
    )
    with pytest.raises(InputError, match="gives other features when it is written to ONNX"):
        to_onnx(detector, opened, transform=SIZE)


def test_a_file_that_takes_a_fixed_number_of_images(network, tmp_path):
    path = tmp_path / "one.onnx"
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(network, (torch.from_numpy(noise(1)),), path, dynamo=False)
    with pytest.raises(InputError, match="takes images exactly 1 at a time; write it to ONNX with"):
        to_onnx(fitted(open_model(network)), path, transform=SIZE)


def test_pixels_that_do_not_come_out_in_one_size(network, file):
    detector = fitted(open_model(network))
    with pytest.raises(InputError, match="come out in different sizes, as one side alone is"):
        to_onnx(detector, file, transform=Preprocessing(16), uint8=True)
    as_they_are = to_onnx(detector, file, transform=Preprocessing(None), uint8=True)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    images = torch.from_numpy(Preprocessing(None)(pixels))
    rows = open_model(network).extractor(images).features.numpy()
    found = outputs(as_they_are, pixels)
    np.testing.assert_allclose(found["score"], detector.score_samples(rows), atol=1e-5)
    with pytest.raises(Exception, match="invalid dimensions for input"):  # of ONNX Runtime's own
        outputs(as_they_are, pixels.reshape(3, 8, 32, 3))


def test_the_head_of_the_detector_gives_logits_where_the_network_has_none(network):
    body = torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.ReLU())
    opened = open_model(body, layer="1")
    rows = opened.extractor(torch.from_numpy(noise(20))).features.numpy()
    head = Head(np.eye(3, 6))
    detector = Energy(head).fit(rows)
    found = outputs(to_onnx(detector, opened, transform=SIZE), noise(20))
    np.testing.assert_allclose(found["logits"], head.logits(rows), atol=1e-5)
    np.testing.assert_allclose(found["score"], detector.score_samples(rows), atol=1e-5)


def test_openvino_runs_the_same_file(network, file):
    openvino = pytest.importorskip("openvino", reason="the extra openvino is not installed")
    opened = open_model(network)
    detector = fitted(opened)
    model = to_onnx(detector, file)
    # Some processors would round to bfloat16.
    exact = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    read = openvino.Core().read_model(model.SerializeToString())
    compiled = openvino.Core().compile_model(read, "CPU", exact)
    # What has a default is a constant to OpenVINO: the threshold is the detector's own.
    assert [port.get_any_name() for port in compiled.inputs] == ["images"]
    images = noise(5)
    found = compiled({"images": images})
    wanted = outputs(model, images)
    for name in ("logits", "score", "p_value"):
        np.testing.assert_allclose(found[name], wanted[name], atol=1e-5, err_msg=name)
    for name in ("typical", "nearest", "runner_up"):
        assert np.array_equal(found[name].astype(wanted[name].dtype), wanted[name]), name
