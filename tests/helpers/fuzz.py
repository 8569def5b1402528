"""A fuzzer: good files of every kind, mutated by a seed, through every public door.

    python tests/helpers/fuzz.py --cases 100000

Case i is the same on every machine. A process of its own works through the cases; its processor
time per case is limited, so that a hang is one wherever it runs, and a crash ends that process
alone. A finding is what is not refused with an InputError: an exception of another kind, a crash,
a hang, or more than 2 GiB of memory.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import hashlib
import io
import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

SECONDS = 20  # of processor time that one case may take
GROWTH = 2 << 20  # kilobytes that the process may come to
SEED = 13

ODD = [
    None, True, 0, -1, 1, 2**31, 2**63, 10**40, 0.5, -1e308, 1e308, float("inf"), float("nan"), "",
    "\0", "=1+1", "é", "\ud800", "x" * 5000, [], {}, [[]], [None], {"": None}, {"$array": "x"},
    {"$strings": ["a" * 9999] + [""] * 50}, {"$tuple": 3}, {"$float": "x"}, {"$head": {}},
]  # fmt: skip
NUMBERS = [b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x80", b"\1\0\0\0"]

Rng = np.random.Generator


# Good files


def images(count: int = 4) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)


def png(pixels: np.ndarray[Any, Any], kind: str = "png") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


def write_good(folder: Path) -> list[Path]:
    """Write a good file of every kind; return their paths, in one order."""
    rows = np.random.default_rng(1).normal(size=(40, 6)).astype(np.float32)
    labels = np.arange(40) % 4
    _write_tables(folder, rows, labels)
    _write_images(folder)
    _write_ours(folder, rows, labels)
    _write_foreign(folder)
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _write_tables(folder: Path, rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> None:
    from safetensors.numpy import save_file

    np.save(folder / "rows.npy", rows)
    np.savez_compressed(folder / "rows.npz", features=rows, labels=labels)
    np.savez(folder / "head.npz", weight=rows[:4], bias=rows[:4, 0])
    save_file({"features": rows, "labels": labels}, folder / "rows.safetensors")
    lines = [",".join([*(f"f{i}" for i in range(6)), "label"])]
    lines += [
        ",".join([*map(str, row.tolist()), f"c{k}"]) for row, k in zip(rows, labels, strict=True)
    ]
    (folder / "rows.csv").write_text("\n".join(lines))
    (folder / "labels.txt").write_text("\n".join(map(str, labels)))
    scores = [json.dumps({"score": float(row[0]), "class": "c"}) for row in rows]
    (folder / "scores.jsonl").write_text("\n".join(scores))
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ModuleNotFoundError:
        return
    table = {"features": list(rows), "label": labels}
    parquet.write_table(arrow.table(table), folder / "rows.parquet")
    shown = {"image": [png(image) for image in images()], "label": [0, 1, 0, 1]}
    parquet.write_table(arrow.table(shown), folder / "images.parquet")


def _write_images(folder: Path) -> None:
    from scipy.io import savemat

    pixels = images()
    for kind in ("png", "jpeg", "tiff", "gif", "bmp"):
        (folder / f"image.{kind}").write_bytes(png(pixels[0], kind))
    np.save(folder / "images.npy", pixels)
    np.savez(folder / "images.npz", images=pixels, labels=[0, 1, 0, 1])
    members = {f"{'ab'[i % 2]}/{i}.png": png(image) for i, image in enumerate(pixels)}
    with zipfile.ZipFile(folder / "images.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    for mode in ("", "gz", "xz"):
        end = f".tar.{mode}".rstrip(".")
        with tarfile.open(folder / f"images{end}", f"w:{mode}", format=tarfile.PAX_FORMAT) as tape:
            for name, data in members.items():
                info = tarfile.TarInfo(name)
                info.size, info.pax_headers = len(data), {"comment": "é" * 20}
                tape.addfile(info, io.BytesIO(data))
    digits = {"X": np.moveaxis(pixels, 0, 3), "y": np.array([[1], [10], [3], [4]], np.uint8)}
    savemat(folder / "plain.mat", digits)
    savemat(folder / "packed.mat", digits, do_compression=True)
    idx = b"\0\0\x08\x03" + struct.pack(">3I", 4, 32, 32) + pixels[..., 0].tobytes()
    (folder / "t-ubyte.gz").write_bytes(gzip.compress(idx))
    cifar = folder / "cifar"
    cifar.mkdir()
    batch = {"data": pixels.transpose(0, 3, 1, 2).reshape(4, -1), "labels": [0, 1, 0, 1]}
    (cifar / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    (cifar / "batches.meta").write_bytes(pickle.dumps({"label_names": ["a", "b"]}, protocol=2))


def _write_ours(folder: Path, rows: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> None:
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    import typica

    head = typica.Head(rows[:4], rows[:4, 0], list("abcd"))
    names = np.array(list("abcd"))[labels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made: dict[str, Any] = {
            "ctm": typica.CTM(),
            "knn": typica.KNN(k=3),
            "mahalanobis": typica.Mahalanobis(),
            "vim": typica.ViM(head),
            "energy": typica.Energy(head),
            "ensemble": typica.Ensemble([typica.CTM(), typica.KNN(k=3)]),
            "pipeline": Pipeline([("scale", StandardScaler()), ("ctm", typica.CTM())]),
        }
        for name, detector in made.items():
            detector.fit(rows, names)
            typica.calibrate(detector, rows + 0.01)
            typica.save(detector, folder / f"{name}.safetensors")
        groups = dict.fromkeys("abcd", "all four")
        by_class = typica.CTM().fit(rows, names).calibrate(2 * rows, by_class=True, groups=groups)
        by_class.save(folder / "by-class.safetensors")
        typica.Monitor(rows[:, 0].astype(np.float64)).save(folder / "monitor.safetensors")
    keys = {"model": "net", "weights": "1", "layer": None, "reduce": "mean", "transform": {}}
    typica.write_bank(
        folder / "bank", rows, logits=rows[:, :4], labels=labels,
        names=[f"n{i}" for i in range(40)], head=head, classes=list("abcd"), identity=keys,
    )  # fmt: skip


def _write_foreign(folder: Path) -> None:
    from typica.bench import init_text

    (folder / "suite.toml").write_text(init_text())
    result = folder / "result"
    (result / "scores").mkdir(parents=True)
    entry = {"auroc": 0.9, "fpr": 0.1, "aupr_in": 0.9, "aupr_out": 0.8}
    results = {"ctm": {"ood": {"svhn": entry}, "average": entry, "seconds": 0.5}}
    document = {"suite": "my", "title": "My", "protocol": {"tpr": 0.95}, "results": results}
    (result / "result.json").write_text(json.dumps(document))
    np.savez(result / "scores" / "ctm.npz", test=np.arange(9.0), **{"ood.svhn": np.arange(5.0)})
    _write_networks(folder)


def _write_networks(folder: Path) -> None:
    try:
        import torch

        torch.save({"fc.weight": torch.ones(2, 3), "fc.bias": torch.ones(2)}, folder / "net.pth")
    except ModuleNotFoundError:
        pass
    try:
        import onnx.parser
        import onnxruntime  # noqa: F401
    except ModuleNotFoundError:
        return
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> tiny (float[n, 2] x) => (float[n, 2] y) '
        "<float[2, 2] w = {1, 0, 0, 2}, float[2] b = {0, 1}> { h = Relu (x) y = Gemm (h, w, b) }"
    )
    (folder / "net.onnx").write_bytes(model.SerializeToString())


# Mutations


def mutate_bytes(data: bytes, rng: Rng) -> bytes:
    """Return bytes with one to three changes: flipped, cut, doubled, dropped or set to extremes."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        size = int(rng.integers(1, 17))
        match int(rng.integers(6)):
            case 0:
                changed[at] ^= 1 << int(rng.integers(8))
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = changed[at : at + size] * int(rng.integers(1, 9))
            case 3:
                del changed[at : at + size]
            case 4:
                changed[at : at + 4] = NUMBERS[int(rng.integers(len(NUMBERS)))]
            case 5:
                changed[at : at + size] = rng.bytes(size)
    return bytes(changed)


def mutate_json(document: Any, rng: Rng) -> Any:
    """Return a document in which one value is another, gone, or under another name."""
    document = copy.deepcopy(document)
    holders = list(holders_of(document))
    if not holders:
        return _odd(rng)
    holder, key = holders[int(rng.integers(len(holders)))]
    match int(rng.integers(4)):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[str(_odd(rng))[:9]] = holder.pop(key)
        case 2:
            holder[key] = copy.deepcopy(holders[int(rng.integers(len(holders)))][0])
        case _:
            holder[key] = _odd(rng)
    return document


def _odd(rng: Rng) -> Any:
    return copy.deepcopy(ODD[int(rng.integers(len(ODD)))])


def holders_of(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a JSON document: what holds it, and the key."""
    entries = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in list(entries):
        yield node, key
        yield from holders_of(value)


def mutate_array(array: np.ndarray[Any, Any], rng: Rng) -> np.ndarray[Any, Any]:
    """Return an array of another type, shape or content."""
    match int(rng.integers(6)):
        case 0:
            return array.astype([np.float16, np.int8, np.bool_, np.uint64][int(rng.integers(4))])
        case 1:
            return array[:0]
        case 2:
            return array[None]
        case 3:
            return array.ravel()[: int(rng.integers(1, array.size + 1))] if array.size else array
        case 4:
            return array.T.copy()
    changed = array.astype(np.float64) if array.dtype.kind in "fiu" else array.copy()
    if changed.size and changed.dtype.kind == "f":
        changed.ravel()[int(rng.integers(changed.size))] = [np.nan, np.inf, -1e308][
            int(rng.integers(3))
        ]
    return changed.astype(array.dtype, copy=False) if array.dtype.kind == "f" else changed


def read_detector(path: Path) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """Return the document and the tensors of a detector's file."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        text = (file.metadata() or {}).get("typica", "{}")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return json.loads(text), tensors


def write_detector(path: Path, document: Any, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write a detector's file with the checksum that belongs to what it says."""
    from safetensors.numpy import save_file

    changed = json.dumps(document | {"sha256": "0" * 64})
    digest = hashlib.sha256(changed.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\n{name} {tensor.dtype.str} {tensor.shape}\n".encode() + tensor.tobytes())
    changed = changed.replace("0" * 64, digest.hexdigest())
    save_file(tensors, path, metadata={"typica": changed.encode("utf-8", "replace").decode()})


def forge_detector(path: Path, rng: Rng) -> None:
    """Change what a detector's file says, and give it the checksum that belongs to that."""
    document, tensors = read_detector(path)
    if tensors and rng.random() < 0.4:
        name = sorted(tensors)[int(rng.integers(len(tensors)))]
        tensors[name] = np.ascontiguousarray(mutate_array(tensors[name], rng))
    else:
        document["content"] = mutate_json(document.get("content"), rng)
    write_detector(path, document, tensors)


def forge_manifest(path: Path, rng: Rng) -> None:
    """Change a bank's manifest, and give it the checksum that belongs to that."""
    document = json.loads(path.read_text())
    document.pop("sha256", None)
    document = mutate_json(document, rng)
    if isinstance(document, dict):
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        document["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(document, indent=1))


def repack_npz(path: Path, rng: Rng) -> None:
    """Change the .npy files within an .npz, whose own checksums are right again."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(members)[int(rng.integers(len(members)))]
    members[name] = mutate_bytes(members[name], rng)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data in members.items():
            archive.writestr(entry, data)


def repack_gzip(path: Path, rng: Rng) -> None:
    """Change what a gzip file holds, with a right checksum."""
    path.write_bytes(gzip.compress(mutate_bytes(gzip.decompress(path.read_bytes()), rng)))


def edit_json(path: Path, rng: Rng) -> None:
    """Change a value of a JSON file."""
    path.write_text(json.dumps(mutate_json(json.loads(path.read_text()), rng)))


STRUCTURED: dict[str, Callable[[Path, Rng], None]] = {
    "manifest.json": forge_manifest,
    "result.json": edit_json,
    ".npz": repack_npz,
    ".gz": repack_gzip,
    ".safetensors": forge_detector,
}


def mutate(path: Path, rng: Rng) -> None:
    """Change a file, or one of a folder, by its bytes or by its structure."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        path = files[int(rng.integers(len(files)))]
    ends = [change for end, change in STRUCTURED.items() if path.name.endswith(end)]
    if ends and rng.random() < 0.6:
        ends[0](path, rng)
    else:
        path.write_bytes(mutate_bytes(path.read_bytes(), rng))


# The process that works through the cases, and the one that watches it


def make_case(good: list[Path], number: int, folder: Path) -> Path:
    """Write the file of a case to a folder of its own."""
    source = good[number % len(good)]
    target = folder / source.name
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)
    mutate(target, np.random.default_rng([SEED, number]))
    return target


def work(folder: Path, cases: range) -> None:
    """Take cases through the doors; print each number before, and what is found after."""
    import resource

    from helpers.doors import enter
    from helpers.memory import peak_kilobytes

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    good = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for number in cases:
        print(f"CASE {number} {good[number % len(good)].name}", flush=True)
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime) + SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        with tempfile.TemporaryDirectory() as place:
            try:
                enter(make_case(good, number, Path(place)))
            except Exception:
                print("FOUND", " | ".join(traceback.format_exc().splitlines()[-3:]), flush=True)
        if peak_kilobytes() > GROWTH:
            print("FOUND grew over 2 GiB", flush=True)
            os._exit(1)


def fuzz(cases: range) -> list[str]:
    """Return what was found in these cases, each with its number and the name of its file."""
    findings = []
    with tempfile.TemporaryDirectory() as name:
        write_good(Path(name))
        while cases:
            command = [sys.executable, __file__, "--work", name, str(cases.start), str(cases.stop)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            case = ""
            for line in run.stdout.splitlines():
                if line.startswith("CASE"):
                    case = line
                elif line.startswith("FOUND"):
                    findings.append(f"{case}: {line}")
            if run.returncode == 0:
                break
            findings.append(f"{case}: ended with {run.returncode} {run.stderr[-500:]}")
            last = int(case.split()[1]) if case else cases.stop
            cases = range(last + 1, cases.stop)
    return findings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(Path(given.work[0]), range(int(given.work[1]), int(given.work[2])))
        return
    findings = fuzz(range(given.start, given.start + given.cases))
    print("\n".join(findings) or f"{given.cases} cases: nothing found")
    sys.exit(bool(findings))


if __name__ == "__main__":
    main()
