"""Small files that would grow, hang or run code: refused, with the size where there is one."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import pickle
import tarfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from helpers.fuzz import forge_detector, png
from safetensors.numpy import save_file

import typica
from typica import FormatError, InputError, bombs, store
from typica.data import _cifar, open_images, read_features, unpack
from typica.data.sets._idx import read_idx
from typica.nets import open_model
from typica.scale import open_tables

TWICE = 4 << 20


@pytest.fixture(autouse=True)
def small_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small files grow to 1 MiB only, so that the bombs can be small as well."""
    monkeypatch.setattr(bombs, "FLOOR", 1 << 20)


def test_an_npz_of_zeros(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, features=np.zeros((TWICE // 8, 8), dtype=np.bool_))
    with pytest.raises(FormatError, match=r"x\.npz: [\d,]+ bytes that unpack to [\d,]+, maybe a b"):
        read_features(path)


def test_a_parquet_file_of_zeros(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"x": np.zeros(TWICE // 8)}), path, compression="zstd")
    with pytest.raises(FormatError, match=r"x\.parquet: [\d,]+ bytes that unpack to [\d,]+, maybe"):
        read_features(path)


def test_a_parquet_file_of_one_long_row(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({"features": arrow.array([np.zeros(TWICE // 8)])}), path)
    before = arrow.default_memory_pool()
    pool = arrow.proxy_memory_pool(before)  # whose highest mark is that of this test
    arrow.set_memory_pool(pool)
    try:
        for use in (read_features, open_images):
            with pytest.raises(FormatError, match=r"x\.parquet: [\d,]+ bytes that unpack to"):
                use(path)
    finally:
        arrow.set_memory_pool(before)
    assert pool.max_memory() < TWICE // 8


def test_a_parquet_file_without_a_column(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(arrow.table({}), path)  # has a group of rows, which Arrow divides by
    for use in (read_features, open_images, open_tables):
        with pytest.raises(InputError, match=r"x\.parquet: "):
            use(path)


def test_a_gzipped_idx_file_of_zeros(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(TWICE >> 20):
            file.write(bytes(1 << 20))
    with pytest.raises(FormatError, match=r"x\.gz: [\d,]+ bytes that unpack to [\d,]+, maybe a bo"):
        read_idx(path)


def test_a_compressed_tar_is_not_spooled_without_bound(tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as tape:
        info = tarfile.TarInfo("a.png")
        info.size = TWICE
        tape.addfile(info, io.BytesIO(bytes(TWICE)))
    with pytest.raises(FormatError, match=r"unpacks to more than [\d,]+ bytes, maybe a bomb"):
        open_images(path)


def test_an_image_in_a_zip_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", bytes(TWICE))
    with pytest.raises(
        InputError, match=r"a\.png: [\d,]+ bytes, more than [\d,]+; make it smaller"
    ):
        open_images(path).read(0)


def test_strings_of_a_detector_that_grow(tmp_path: Path) -> None:
    path = tmp_path / "d.safetensors"
    typica.save(typica.CTM().fit(np.eye(60), ["a" * 20_000, *["b"] * 59]), path)
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()["typica"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    document["content"] = {"$strings": ["a" * 20_000, *[""] * 50_000]}
    save_file(tensors, path, metadata={"typica": json.dumps(document)})
    forge_detector_checksum(path)
    with pytest.raises(
        FormatError, match="50,001 strings of up to 20,000 characters, maybe a bomb"
    ):
        typica.load(path)


def forge_detector_checksum(path: Path) -> None:
    """Give a file the checksum of its content, unchanged."""

    class Unchanged:
        def random(self) -> float:
            return 1.0

    from helpers import fuzz

    original = fuzz.mutate_json
    fuzz.mutate_json = lambda document, rng: document
    try:
        forge_detector(path, Unchanged())  # type: ignore[arg-type]
    finally:
        fuzz.mutate_json = original


def test_what_a_file_holds_must_be_a_detector(tmp_path: Path) -> None:
    path = tmp_path / "d.safetensors"
    path.write_bytes(store.to_bytes([1, 2, 3]))  # which `save` refuses
    with pytest.raises(FormatError, match=r"makes no sense \(a list and not a detector\)"):
        typica.load(path)


def test_a_pax_header_that_keeps_python_busy(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tape:
        info = tarfile.TarInfo("a.png")
        info.pax_headers = {"comment": "1" * 200_000}
        tape.addfile(info, io.BytesIO(b""))
    began = time.process_time()
    for use in (lambda: open_images(path), lambda: unpack(path, tmp_path / "out")):
        with pytest.raises(FormatError, match="not a whole"):
            use()
    assert time.process_time() - began < 5
    assert not (tmp_path / "out").exists()


def write_cifar(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a"]}, protocol=2))
    (folder / "data_batch_1").write_bytes(content)
    return folder


def test_a_pickle_cannot_change_our_functions(tmp_path: Path) -> None:
    function = b"cnumpy.core.multiarray\n_reconstruct\n"
    state = b"}X\x04\x00\x00\x00evilK\x01s"
    folder = write_cifar(tmp_path / "cifar", b"\x80\x02" + function + state + b"b.")
    with pytest.raises(FormatError, match="it changes something else than an array"):
        open_images(folder)
    assert not hasattr(_cifar._reconstruct, "evil")


def test_a_pickles_memo_costs_nothing(tmp_path: Path) -> None:
    folder = write_cifar(tmp_path / "cifar", b"\x80\x02]r\xff\xff\xff\x0f.")
    with pytest.raises(FormatError, match="holds a list in place of a dict"):
        open_images(folder)


def test_a_pickle_cannot_double_a_string_for_ever(tmp_path: Path) -> None:
    text = b"X" + (1 << 20).to_bytes(4, "little") + b"x" * (1 << 20) + b"q\x00"
    again = b"c_codecs\nencode\nh\x00\x85R"
    folder = write_cifar(tmp_path / "cifar", b"\x80\x02]" + text + again * 300 + b".")
    with pytest.raises(FormatError, match="it grows a hundredfold, maybe a bomb"):
        open_images(folder)


def unpack_there(archive: Path, folder: Path) -> bool:
    try:
        unpack(archive, folder)
    except InputError:
        return False
    return True


def test_two_that_unpack_to_one_folder_lose_nothing(tmp_path: Path) -> None:
    archive = tmp_path / "x.zip"
    members = {f"{i}.png": png(np.full((4, 4, 3), i, np.uint8)) for i in range(200)}
    with zipfile.ZipFile(archive, "w") as packed:
        for name, data in members.items():
            packed.writestr(name, data)
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        done = pool.starmap(unpack_there, [(archive, tmp_path / "out")] * 6)
    assert any(done)
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == members
    assert {path.name for path in tmp_path.iterdir()} == {"x.zip", "out"}


GROWING = {
    "ConstantOfShape": ("int64[2] s = {100000, 100000}", "c = ConstantOfShape (s)"),
    "Expand": ("float[1, 1] o = {1}, int64[2] s = {100000, 100000}", "c = Expand (o, s)"),
    "Tile": ("float[1, 1] o = {1}, int64[2] s = {100000, 100000}", "c = Tile (o, s)"),
    "Pad": ("float[1, 1] o = {1}, int64[4] s = {0, 0, 99999, 99999}", "c = Pad (o, s)"),
    "RandomNormal": ("float o = {1}", "c = RandomNormal <shape = [100000, 100000]> ()"),
    "Range": (
        "int64 a = {0}, int64 b = {10000000000}, int64 d = {1}",
        "i = Range (a, b, d) c = Cast <to = 1> (i)",
    ),
    "OneHot": (
        "int64[1] o = {0}, int64 s = {10000000000}, float[2] v = {0, 1}",
        "c = OneHot (o, s, v)",
    ),
    "of computed shape": (
        "int64[2] s = {400, 250}",
        "t = Mul (s, s) u = Mul (t, s) c = ConstantOfShape (u)",
    ),
}


@pytest.mark.parametrize("kind", GROWING)
def test_a_constant_of_an_onnx_model_that_grows(tmp_path: Path, kind: str) -> None:
    parser = pytest.importorskip("onnx.parser")
    pytest.importorskip("onnxruntime")
    path = tmp_path / "net.onnx"
    stored, made = GROWING[kind]
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> tiny (float[n, 2] x) => (float[n, 2] y) '
        f"<{stored}, float[2, 2] w = {{1, 0, 0, 2}}> "
        f"{{ {made} m = ReduceSum <keepdims = 0> (c) z = Add (x, m) y = MatMul (z, w) }}"
    )
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match=r"net.onnx: a constant of [0-9,]{13,} bytes .*a bomb"):
        open_model(path)


def test_a_constant_range_of_unknown_size_is_refused(tmp_path: Path) -> None:
    parser = pytest.importorskip("onnx.parser")
    path = tmp_path / "net.onnx"
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> tiny (float[n, 2] x) => (float[n, 2] y) '
        "<int64 a = {0}, int64 b = {100000}, int64 d = {1}, float[2, 2] w = {1, 0, 0, 2}> "
        "{ e = Mul (b, b) i = Range (a, e, d) c = Cast <to = 1> (i) "
        "m = ReduceSum <keepdims = 0> (c) z = Add (x, m) y = MatMul (z, w) }"
    )
    path.write_bytes(model.SerializeToString())
    with pytest.raises(FormatError, match="a constant of unknown size"):
        open_model(path)
