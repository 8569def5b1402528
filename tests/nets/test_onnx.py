"""ONNX files: features, heads, and bad files.

Features go by the modules that were exported; heads come in every form that exporters write.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.networks import NETWORKS, close, expected, images, network, torch_is_talkative
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import typica
from typica.nets import OnnxExtractor

onnx = pytest.importorskip("onnx", reason="needs the extra 'onnx'")
pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The small networks as torch.onnx.export writes them, for any batch size but the ViT's."""
    folder = tmp_path_factory.mktemp("onnx")
    paths = {}
    for name in NETWORKS:
        model, outputs = network(name), ["logits", "projection"] if name == "mlp" else ["y"]
        paths[name] = folder / f"{name}.onnx"
        dynamic = {} if name == "vit" else {"dynamic_axes": {"x": {0: "n"}}}
        with torch_is_talkative():
            torch.onnx.export(
                *(model, (torch.from_numpy(images(4)),), paths[name]),
                **{
                    "input_names": ["x"],
                    "output_names": outputs,
                    "dynamo": False,
                    "verbose": False,
                    **dynamic,
                },
            )
    return paths


@pytest.mark.parametrize("name", NETWORKS)
def test_features_logits_and_head_of_exported_networks(files, name):
    model, x = network(name), images(7)
    extractor = OnnxExtractor(files[name])
    features, logits = expected(model, x)
    batch = extractor(x)
    assert close(batch.features, features) and close(batch.logits, logits)
    assert batch.features.dtype == np.float32 and batch.features is batch.layers["penultimate"]
    head = model.fc if name == "cnn" else model.head
    assert extractor.head == typica.Head(head.weight, head.bias)
    assert extractor.sizes == ((4, 4) if name == "vit" else (1, None))
    assert close(extractor(torch.from_numpy(x)).features, features)
    assert close(extractor(x.astype(np.float64)).features, features)
    assert close(extractor(x[:1]).features, features[:1])
    assert extractor.fingerprint() == hashlib.sha256(files[name].read_bytes()).hexdigest()
    assert (
        "features are the input of the head" in extractor.describe()
        and "(3 classes)" in extractor.describe()
    )


def test_the_output_called_logits_goes_first(files):
    model = onnx.load(files["mlp"])
    for outputs, width in ((["projection", "logits"], 3), (["projection"], 5)):
        kept = [value for name in outputs for value in model.graph.output if value.name == name]
        del model.graph.output[:]
        model.graph.output.extend(kept)
        assert OnnxExtractor(model.SerializeToString()).head.weight.shape == (width, 7)


def test_any_tensor_by_its_name(files):
    model, x = network("cnn"), images(3)
    names = [name for node in onnx.load(files["cnn"]).graph.node for name in node.output]
    relu = next(name for name in names if "relu" in name.lower())
    with torch.no_grad():
        maps = model.relu(model.bn(model.conv(torch.from_numpy(x)))).numpy()
    for reduce, rows in (
        ("mean", maps.mean((2, 3))),
        ("max", maps.max((2, 3))),
        ("flatten", maps.reshape(3, -1)),
        (lambda a: a[:, :, 0, 1], maps[:, :, 0, 1]),
    ):
        assert close(OnnxExtractor(files["cnn"], relu, reduce=reduce)(x).features, rows)
    several = OnnxExtractor(files["cnn"], layers=["penultimate", "x", relu])
    batch = several(x)
    assert list(batch.layers) == ["penultimate", "x", relu] and batch.features is batch.layers[relu]
    assert close(batch.layers["penultimate"], expected(model, x)[0])
    assert close(batch.layers["x"], x.mean((2, 3)))
    assert close(batch.logits, expected(model, x)[1])
    assert f"features are the tensor {relu!r}" in several.describe()


# Heads, written by hand


def model_of(nodes, outputs, constants, inputs=(("x", ("n", 4)),)) -> bytes:
    graph = helper.make_graph(
        nodes,
        "by_hand",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [
            numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)
            for name, value in constants.items()
        ],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


node = helper.make_node
W = np.random.default_rng(1).normal(size=(3, 4))
B = np.random.default_rng(2).normal(size=3)
X = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
Z = np.maximum(X.astype(np.float64), 0)
RELU = node("Relu", ["x"], ["h"])
TURN = node("Transpose", ["h"], ["ht"], perm=[1, 0])
BACK = node("Transpose", ["yt"], ["y"], perm=[1, 0])
HEADS = {
    "gemm": ([node("Gemm", ["h", "w", "b"], ["y"], transB=1)], {"w": W, "b": B}, W, B),
    "gemm without bias": ([node("Gemm", ["h", "w"], ["y"])], {"w": W.T}, W, 0 * B),
    "scaled": (
        [node("Gemm", ["h", "w", "b"], ["y"], transB=1, alpha=0.5, beta=3.0)],
        {"w": W, "b": B[None]},
        W / 2,
        3 * B,
    ),
    "one bias for all": (
        [node("Gemm", ["h", "w", "b"], ["y"], transB=1)],
        {"w": W, "b": 2.0},
        W,
        0 * B + 2,
    ),
    "turned features": (
        [TURN, node("Gemm", ["ht", "w", "b"], ["y"], transA=1)],
        {"w": W.T, "b": B},
        W,
        B,
    ),
    "weight first": (
        [node("Gemm", ["w", "h", "b"], ["yt"], transB=1), BACK],
        {"w": W, "b": B[:, None]},
        W,
        B,
    ),
    "weight first, turned": (
        [TURN, node("Gemm", ["w", "ht"], ["yt"], transA=1), BACK],
        {"w": W.T},
        W,
        0 * B,
    ),
    "matmul": ([node("MatMul", ["h", "w"], ["y"])], {"w": W.T}, W, 0 * B),
    "matmul, add": (
        [node("MatMul", ["h", "w"], ["m"]), node("Add", ["m", "b"], ["y"])],
        {"w": W.T, "b": B},
        W,
        B,
    ),
    "add, matmul": (
        [node("MatMul", ["h", "w"], ["m"]), node("Add", ["b", "m"], ["y"])],
        {"w": W.T, "b": B},
        W,
        B,
    ),
    "matmul, weight first": (
        [TURN, node("MatMul", ["w", "ht"], ["m"]), node("Add", ["m", "b"], ["yt"]), BACK],
        {"w": W, "b": B[:, None]},
        W,
        B,
    ),
    "constant nodes": (
        [
            node("Constant", [], ["w"], value=numpy_helper.from_array(W.astype(np.float32))),
            node("Constant", [], ["b"], value_floats=B.tolist()),
            node("Transpose", ["w"], ["wt"], perm=[1, 0]),
            node("MatMul", ["h", "wt"], ["m"]),
            node("Add", ["m", "b"], ["y"]),
        ],
        {},
        W,
        B,
    ),
    "softmax and more": (
        [
            node("Gemm", ["h", "w", "b"], ["l"], transB=1),
            node("Div", ["l", "t"], ["s"]),
            node("Softmax", ["s"], ["p"]),
            node("Identity", ["p"], ["q"]),
            node("Flatten", ["q"], ["r"]),
            node("Cast", ["r"], ["y"], to=TensorProto.FLOAT),
        ],
        {"w": W, "b": B, "t": 2.0},
        W,
        B,
    ),
}


@pytest.mark.parametrize("form", HEADS)
def test_heads_of_every_form(form):
    nodes, constants, weight, bias = HEADS[form]
    extractor = OnnxExtractor(model_of([RELU, *nodes], ["y"], constants))
    batch = extractor(X)
    assert close(batch.features, Z) and close(batch.logits, Z @ weight.T + bias)
    assert close(extractor.head.weight, weight) and close(extractor.head.bias, bias)


@settings(max_examples=25)
@given(
    *[st.booleans()] * 4,
    st.integers(1, 4),
    st.integers(1, 4),
    st.floats(0.25, 2),
    st.floats(0.25, 2),
)
def test_every_gemm_relates_features_and_logits(  # noqa: PLR0917 (what a Gemm may be)
    first, turn_a, turn_b, bias, m, classes, alpha, beta
):
    rng = np.random.default_rng(0)
    w, z = rng.normal(size=(classes, m)), rng.normal(size=(3, m)).astype(np.float32)
    stored = w.T if (not first and not turn_b) or (first and turn_a) else w
    b = rng.normal(size=(classes, 1) if first else classes)
    nodes = [node("Relu", ["x"], ["h"])]
    turned = (turn_b == 0) if first else turn_a  # whether Gemm is given columns
    nodes += (
        [node("Transpose", ["h"], ["ht"], perm=[1, 0])]
        if turned
        else [node("Identity", ["h"], ["ht"])]
    )
    inputs = (["w", "ht"] if first else ["ht", "w"]) + ["b"] * bias
    nodes.append(
        node("Gemm", inputs, ["g"], transA=int(turn_a), transB=int(turn_b), alpha=alpha, beta=beta)
    )
    nodes.append(
        node("Transpose", ["g"], ["y"], perm=[1, 0]) if first else node("Identity", ["g"], ["y"])
    )
    extractor = OnnxExtractor(model_of(nodes, ["y"], {"w": stored, "b": b}, [("x", ("n", m))]))
    batch = extractor(z)
    h = np.maximum(z.astype(np.float64), 0)
    assert np.allclose(batch.features, h) and extractor.head.weight.shape == (classes, m)
    assert np.allclose(
        batch.logits, h @ (alpha * w.T) + (beta * b.reshape(-1) if bias else 0), atol=1e-5
    )
    assert np.allclose(extractor.head.logits(batch.features), batch.logits, atol=1e-5)


@pytest.mark.parametrize("reduce", ["mean", "cls"])
def test_a_head_over_tokens(reduce):
    x = np.random.default_rng(0).normal(size=(5, 6, 4)).astype(np.float32)
    nodes = [RELU, node("MatMul", ["h", "w"], ["m"]), node("Add", ["m", "b"], ["y"])]
    extractor = OnnxExtractor(
        model_of(nodes, ["y"], {"w": W.T, "b": B}, [("x", ("n", 6, 4))]), reduce=reduce
    )
    z = np.maximum(x.astype(np.float64), 0)
    z = z.mean(1) if reduce == "mean" else z[:, 0]
    assert close(extractor(x).features, z) and close(extractor(x).logits, z @ W.T + B)


def test_a_convolution_as_the_head():
    x = np.random.default_rng(0).normal(size=(5, 4, 3, 2)).astype(np.float32)
    given = [("x", ("n", 4, 3, 2))]
    nodes = [
        RELU,
        node("Conv", ["h", "w", "b"], ["c"]),
        node("GlobalAveragePool", ["c"], ["g"]),
        node("Flatten", ["g"], ["y"]),
    ]
    extractor = OnnxExtractor(model_of(nodes, ["y"], {"w": W[:, :, None, None], "b": B}, given))
    z = np.maximum(x.astype(np.float64), 0).mean((2, 3))
    assert close(extractor(x).features, z) and close(extractor(x).logits, z @ W.T + B)
    assert close(extractor.head.weight, W)
    nodes[1] = node("Conv", ["h", "w", "b"], ["c"], strides=[2, 1])
    with pytest.raises(typica.InputError, match="no Gemm, MatMul or 1x1 Conv"):
        OnnxExtractor(model_of(nodes, ["y"], {"w": W[:, :, None, None], "b": B}, given))


def test_a_model_without_a_linear_head():
    product = [RELU, node("MatMul", ["h", "h"], ["y"])]
    square = [("x", (4, 4))]
    for nodes in (
        [RELU, node("Tanh", ["h"], ["y"])],
        product,
        [RELU, node("Add", ["h", "b"], ["y"])],
    ):
        constants = {"b": np.ones(4)} if "b" in nodes[1].input else {}
        content = model_of(nodes, ["y"], constants, square)
        with pytest.raises(
            typica.InputError, match=r"no Gemm, MatMul .* the model; pass layer=TENSOR; .* 'h', 'y'"
        ):
            OnnxExtractor(content)
    extractor = OnnxExtractor(content, "h")
    batch = extractor(X[:3])
    assert close(batch.features, Z[:3]) and close(batch.logits, Z[:3] + 1)
    assert "there is no linear head" in extractor.describe()
    with pytest.raises(typica.InputError, match="pass layer=TENSOR"):
        _ = extractor.head


def test_weights_beside_the_file(files, tmp_path):
    model = onnx.load(files["cnn"])
    path = tmp_path / "model.onnx"
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=0
    )
    assert close(OnnxExtractor(path)(images()).features, expected(network("cnn"), images())[0])
    first = OnnxExtractor(path).fingerprint()
    beside = tmp_path / "weights.bin"
    assert first == hashlib.sha256(path.read_bytes() + beside.read_bytes()).hexdigest()
    content = bytearray(beside.read_bytes())
    content[3] ^= 1
    beside.write_bytes(content)
    assert OnnxExtractor(path).fingerprint() != first
    beside.write_bytes(content[:10])
    with pytest.raises(
        typica.FormatError, match=r"its weights in weights\.bin cannot be read \(.*\); export it ag"
    ):
        OnnxExtractor(path)
    beside.unlink()
    with pytest.raises(
        typica.InputError,
        match=r"keeps weights in another file: .*weights\.bin: there is no such file",
    ):
        OnnxExtractor(path)


def outside(values: np.ndarray, file: Path) -> TensorProto:
    """A tensor whose numbers lie in a file."""
    tensor = numpy_helper.from_array(values, "w")
    file.write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=file.name)
    return tensor


def scaled_by(place: str, weight: TensorProto, path: Path) -> None:
    """Write a model, y = head * relu(x * w), that keeps w in one of the places that models have."""
    constant = helper.make_node("Constant", [], ["w"], value=weight)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])
    head = numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(3, 2), "head")
    yes = numpy_helper.from_array(np.array(True), "yes")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    functions, initializers, start = [], [head, yes], [constant]
    if place == "initializer":
        start, initializers = [], [head, yes, weight]
    elif place == "subgraph":
        w = helper.make_tensor_value_info("w", TensorProto.FLOAT, [3])
        branch = helper.make_graph(
            [helper.make_node("Identity", ["inner"], ["out"])], "branch", [], [w]
        )
        branch.output[0].name = "out"
        weight.name = "inner"
        branch.initializer.append(weight)
        start = [helper.make_node("If", ["yes"], ["w"], then_branch=branch, else_branch=branch)]
    elif place == "function":
        functions = [helper.make_function("mine", "weight", [], ["w"], [constant], opsets[:1])]
        start = [helper.make_node("weight", [], ["w"], domain="mine")]
    nodes = [
        *start,
        helper.make_node("Mul", ["x", "w"], ["scaled"]),
        helper.make_node("Relu", ["scaled"], ["z"]),
        helper.make_node("MatMul", ["z", "head"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "scaled", [x], [y], initializers)
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("place", ["initializer", "attribute", "subgraph", "function"])
def test_other_weights_beside_the_file_are_noticed_wherever_the_model_keeps_them(tmp_path, place):
    path, beside = tmp_path / "net.onnx", tmp_path / "weights.bin"
    weights = np.array([1, 2, 3], dtype=np.float32)
    scaled_by(place, outside(weights, beside), path)
    first = OnnxExtractor(path)
    assert first(X[:4, :3]).features == pytest.approx(np.maximum(X[:4, :3] * weights, 0))
    beside.write_bytes((7 * weights).tobytes())
    other = OnnxExtractor(path)
    assert other(X[:4, :3]).features == pytest.approx(np.maximum(X[:4, :3] * 7 * weights, 0))
    both = path.read_bytes() + beside.read_bytes()
    assert first.fingerprint() != other.fingerprint() == hashlib.sha256(both).hexdigest()


def test_weights_that_a_model_does_not_need_are_covered_too(tmp_path):
    """Sparse initialisers, and what a model holds for its training."""
    path, beside = tmp_path / "net.onnx", tmp_path / "weights.bin"
    weight = outside(np.array([1, 2, 3], dtype=np.float32), beside)
    prints = set()
    for field in ("sparse", "training"):
        scaled_by("attribute", numpy_helper.from_array(np.ones(3, dtype=np.float32), "w"), path)
        model = onnx.load(path)
        if field == "sparse":
            entry = model.graph.sparse_initializer.add(dims=[5])
            entry.values.CopyFrom(weight)
            entry.values.name = "s"
            entry.indices.CopyFrom(numpy_helper.from_array(np.arange(3), "at"))
        else:
            entry = model.training_info.add()
            entry.initialization.initializer.append(weight)
        path.write_bytes(model.SerializeToString())
        for values in ([1, 2, 3], [7, 14, 21]):
            beside.write_bytes(np.array(values, dtype=np.float32).tobytes())
            prints.add(OnnxExtractor(path).fingerprint())
    assert len(prints) == 4


OUTSIDE = ["../weights.bin", "a/../../weights.bin", "/tmp/weights.bin", "..\\w", "C:\\w", "C:w", ""]


@pytest.mark.parametrize(
    ("place", "location"),
    [
        *(("initializer", location) for location in OUTSIDE),
        *((place, "../weights.bin") for place in ("attribute", "subgraph", "function")),
    ],
)
def test_weights_outside_the_folder_are_refused_unread(tmp_path, place, location):
    folder, beside = tmp_path / "models", tmp_path / "weights.bin"
    folder.mkdir()
    weight = outside(np.ones(3, dtype=np.float32), beside)
    weight.external_data[0].value = location
    scaled_by(place, weight, folder / "net.onnx")
    beside.unlink()  # nobody looks whether it is there
    with pytest.raises(typica.FormatError, match="outside its folder; export it again"):
        OnnxExtractor(folder / "net.onnx")


def test_a_model_in_memory_has_no_file_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scaled_by(
        "attribute", outside(np.ones(3, dtype=np.float32), Path("weights.bin")), Path("n.onnx")
    )
    with pytest.raises(typica.InputError, match=r"keeps weights in weights\.bin; pass the path"):
        OnnxExtractor(Path("n.onnx").read_bytes())


def test_a_model_too_large_for_one_message_is_kept_in_a_file(files, monkeypatch):
    monkeypatch.setattr("typica.nets.extractors.onnx._LARGEST", 100)
    extractor = OnnxExtractor(files["cnn"])
    assert isinstance(extractor.program, Path) and extractor.program.is_file()
    assert close(extractor(images()).features, expected(network("cnn"), images())[0])
    path = extractor.program
    del extractor
    assert not path.exists()


def test_local_functions_are_looked_into():
    inner = helper.make_function(
        "own",
        "Last",
        ["a", "w"],
        ["o"],
        [node("MatMul", ["a", "w"], ["o"])],
        [helper.make_opsetid("", 17)],
    )
    model = onnx.load_model_from_string(
        model_of([RELU, node("Last", ["h", "w"], ["y"], domain="own")], ["y"], {"w": W.T})
    )
    model.functions.append(inner)
    model.opset_import.append(helper.make_opsetid("own", 1))
    extractor = OnnxExtractor(model.SerializeToString())
    assert close(extractor(X).features, Z) and close(extractor.head.weight, W)


def test_bad_files_and_arguments(files, tmp_path):
    with pytest.raises(
        typica.InputError, match=r"none\.onnx: there is no such file; check the path"
    ):
        OnnxExtractor(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("This is no model.")
    for bad in (tmp_path / "text.onnx", b"", files["cnn"].read_bytes()[:200]):
        with pytest.raises(typica.errors.FormatError, match="is not an ONNX model"):
            OnnxExtractor(bad)
    with pytest.raises(
        typica.InputError,
        match=r"has no tensor '/relu/Relu_output'; closest: '/relu/Relu_output_0'",
    ):
        OnnxExtractor(files["cnn"], "/relu/Relu_output")
    with pytest.raises(typica.InputError, match=r"pass one name, or layers=\[...\] of several"):
        OnnxExtractor(files["cnn"], "a", layers=["b"])
    with pytest.raises(typica.InputError, match="reduce='median' is unknown"):
        OnnxExtractor(files["cnn"], reduce="median")
    extractor = OnnxExtractor(files["cnn"])
    with pytest.raises(typica.InputError, match="got list; pass a batch as an array or tensor"):
        extractor([1, 2])
    with pytest.raises(
        typica.InputError, match="takes float32 and got uint8; preprocess the images"
    ):
        extractor(np.zeros((1, 3, 8, 8), dtype=np.uint8))
    with pytest.raises(
        typica.InputError, match=r"images of shape \(2, 1, 8, 8\) do not fit the model"
    ):
        extractor(images(2)[:, :1])
    two = model_of(
        [node("Gemm", ["x", "w"], ["h"]), node("Add", ["h", "z"], ["y"])],
        ["y"],
        {"w": W.T},
        [("x", ("n", 4)), ("z", (3,))],
    )
    with pytest.raises(typica.InputError, match="takes 'x', 'z'; pass a model with one input"):
        OnnxExtractor(two)
    unknown = model_of(
        [node("Nonsense", ["x"], ["h"]), node("Gemm", ["h", "w"], ["y"])], ["y"], {"w": W.T}
    )
    with pytest.raises(typica.errors.FormatError, match="ONNX Runtime does not take the model"):
        OnnxExtractor(unknown)


def test_a_tensor_called_penultimate():
    nodes = [
        node("Relu", ["x"], ["penultimate"]),
        node("Tanh", ["penultimate"], ["h"]),
        node("Gemm", ["h", "w"], ["y"]),
    ]
    content = model_of(nodes, ["y"], {"w": W.T})
    assert close(OnnxExtractor(content, "penultimate")(X).features, Z)
    assert close(OnnxExtractor(content)(X).features, np.tanh(Z))


def test_a_very_deep_graph():
    deep = [
        node("Relu", ["x"], ["h0"]),
        *(node("Abs", [f"h{i}"], [f"h{i + 1}"]) for i in range(3000)),
    ]
    end = [
        node("Reshape", ["h3000", "shape"], ["h"]),
        node("Gemm", ["h", "w"], ["l"]),
        node("Softmax", ["l"], ["y"]),
    ]
    content = onnx.load_model_from_string(model_of([*deep, *end], ["y"], {"w": W.T}))
    content.graph.initializer.append(numpy_helper.from_array(np.array([-1, 4]), "shape"))
    assert close(OnnxExtractor(content.SerializeToString())(X).logits, Z @ W.T)


def test_a_long_chain_of_constants():
    chain = [node("Identity", ["w" if i == 0 else f"w{i}"], [f"w{i + 1}"]) for i in range(2000)]
    content = model_of(
        [*chain, node("Relu", ["x"], ["h"]), node("Gemm", ["h", "w2000"], ["y"])], ["y"], {"w": W.T}
    )
    extractor = OnnxExtractor(content)
    assert close(extractor(X).logits, np.maximum(X, 0) @ W.T) and close(extractor.head.weight, W)


def test_torch_is_not_needed_and_a_missing_extra_is_named(files):
    code = f"""
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
import numpy as np
from typica.nets import OnnxExtractor, make_runner
extractor = OnnxExtractor({str(files["cnn"])!r})
runner = make_runner(extractor, "onnx", \
sample=np.zeros((4, 3, 8, 8), dtype=np.float32), batch=4, threads=1)
print([found.features.shape for found in runner([np.zeros((6, 3, 8, 8), dtype=np.float32)])])
sys.modules['onnxruntime'] = None
OnnxExtractor({str(files["cnn"])!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[(6, 6)]", done.stderr
    assert (
        "onnxruntime is not installed; install the extra 'onnx': pip install 'typica[onnx]'"
        in done.stderr
    )


def test_half_precision_models(files):
    half = [node("Relu", ["x"], ["h"]), node("MatMul", ["h", "w"], ["y"])]
    graph = helper.make_graph(
        half,
        "half",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, ("n", 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
        [numpy_helper.from_array(W.T.astype(np.float16), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert close(OnnxExtractor(model.SerializeToString())(X).features, Z, 1e-3)


def test_linear_layers_of_torch_without_bias(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3, bias=False))
    with torch_is_talkative():
        torch.onnx.export(
            model, (torch.from_numpy(X),), tmp_path / "m.onnx", dynamo=False, verbose=False
        )
    extractor = OnnxExtractor(tmp_path / "m.onnx")
    assert close(extractor.head.weight, model[2].weight.detach()) and not extractor.head.bias.any()
