"""A fuzzer that coverage guides: mutations of good files that reach new code are mutated further.

    .oracles/bin/python tests/helpers/guided.py [--seconds 300] [detectors features images banks]

What is not refused with an InputError is a finding, and so is a crash, a hang, or more than 2 GiB
of memory. The file that a finding was made with is kept in the folder `--keep`.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import importlib.util
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

SECONDS = 20  # that one case may take
MEGABYTES = 2 << 10
SEEDS = 200  # mutations to begin with
MEMORY = Path("/dev/shm")  # where it is there, writing a case takes no disk
AREAS = ("detectors", "features", "images", "banks")
FEATURES = (".npy", ".npz", ".parquet", ".csv", ".txt", "rows.safetensors")


class Choices:
    """The choices of a mutation, made by the fuzzer's bytes in place of random numbers."""

    def __init__(self, data: bytes) -> None:
        import atheris

        self._data = atheris.FuzzedDataProvider(data)

    def integers(self, low: int, high: int | None = None) -> int:
        """Return an integer below `low`, or from `low` to below `high`."""
        first, end = (0, low) if high is None else (low, high)
        return int(self._data.ConsumeIntInRange(first, end - 1))

    def random(self) -> float:
        """Return a number from 0 to 1."""
        return self.integers(256) / 256

    def bytes(self, n: int) -> bytes:
        """Return n bytes."""
        return bytes(self._data.ConsumeBytes(n)).ljust(n, b"\0")


def write_good(area: str, folder: Path) -> list[Path]:
    """Write the good files of an area; return their paths."""
    from helpers import fuzz

    if area == "detectors":
        _write_detectors(folder)
        return sorted(folder.iterdir())
    paths = fuzz.write_good(folder)
    if area == "banks":
        return [path for path in paths if path.name == "bank"]
    features = {path for path in paths if path.name.endswith(FEATURES)}
    if area == "features":
        return sorted(features)
    others = (".safetensors", ".jsonl", ".toml", ".onnx", ".pth")
    images = [path for path in paths if path.name not in ("bank", "result")]
    return [path for path in images if path not in features and path.suffix not in others] + [
        path for path in features if path.name.startswith("images.")
    ]


def _write_detectors(folder: Path) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import typica
    from helpers.data import fitted, make_data
    from typica import rectify

    data = make_data()
    for name in typica.list_detectors():
        detector = fitted(name, data)
        if not detector.tags.saveable:
            continue
        detector.calibrate(data.held_out)
        detector.save(folder / f"{name}.safetensors")
    names = np.array([f"class {label}" for label in data.labels])
    steps = [getattr(rectify, name)() for name in ("Centre", "PCA", "ReAct", "ASH")]
    pipeline = make_pipeline(StandardScaler(), *steps, typica.CTM()).fit(data.train, names)
    typica.save(typica.calibrate(pipeline, data.held_out), folder / "pipeline.safetensors")
    by_class = typica.CTM().fit(data.train, names).calibrate(data.held_out, by_class=True)
    by_class.save(folder / "by-class.safetensors")
    layers = {"early": data.train[:, :3], "late": data.train}
    ensemble = typica.LayerEnsemble(typica.CTM()).fit(layers, data.labels)
    ensemble.save(folder / "layers.safetensors")
    typica.Monitor(np.arange(40.0)).save(folder / "monitor.safetensors")


# Mutations


class Swapped:
    """Mutations of detectors' files that take keys and nodes from each other."""

    def __init__(self, paths: list[Path]) -> None:
        from helpers.fuzz import read_detector

        self.files = {path.name: read_detector(path) for path in paths}
        self._names = sorted(self.files)

    def mutate(self, path: Path, choices: Choices) -> None:
        """Write a mutation of a detector's file, with the right checksum."""
        from helpers import fuzz

        document, tensors = copy.deepcopy(self.files[path.name])
        for _ in range(choices.integers(1, 4)):
            match choices.integers(4):
                case 0 if tensors:
                    name = sorted(tensors)[choices.integers(len(tensors))]
                    changed = fuzz.mutate_array(tensors[name], choices)  # type: ignore[arg-type]
                    tensors[name] = np.ascontiguousarray(changed)
                case 1 | 2:
                    self._swap(document, tensors, choices)
                case _:
                    content = document.get("content")
                    document["content"] = fuzz.mutate_json(content, choices)  # type: ignore[arg-type]
        fuzz.write_detector(path, document, tensors)

    def _swap(self, document: Any, tensors: dict[str, Any], choices: Choices) -> None:
        """Put a node of another file, or its key, in the place of one of this file."""
        from helpers.fuzz import holders_of

        other, theirs = self.files[self._names[choices.integers(len(self._names))]]
        places, sources = list(holders_of(document)), list(holders_of(other))
        holder, key = places[choices.integers(len(places))]
        source, taken = sources[choices.integers(len(sources))]
        if isinstance(holder, dict) and isinstance(taken, str) and choices.integers(3) == 0:
            holder[taken] = holder.pop(key)
            return
        holder[key] = copy.deepcopy(source[taken])
        for within, name in holders_of([holder[key]]):
            tensor = within[name]
            if name == "$array" and isinstance(tensor, str) and tensor in theirs:
                within[name] = f"taken.{tensor}"
                tensors[f"taken.{tensor}"] = theirs[tensor]


def _mutate_any(path: Path, choices: Choices) -> None:
    from helpers import fuzz

    for _ in range(choices.integers(1, 4)):
        fuzz.mutate(path, choices)  # type: ignore[arg-type]


# The process that runs one area, and the one that starts it


def _import_all() -> None:
    """Import all of Typica, so that all of it is seen."""
    import typica

    for module in pkgutil.walk_packages(typica.__path__, "typica."):
        if not module.name.startswith(("typica.serve", "typica.scale.ray", "typica.scale.spark")):
            try:
                importlib.import_module(module.name)
            except Exception as error:
                print(f"not instrumented: {module.name} ({error})")


def work(area: str, seconds: int, folder: Path, keep: Path) -> None:
    """Run one area; print each finding once."""
    import atheris

    with atheris.instrument_imports(include=["typica"]):
        _import_all()
    from helpers.doors import enter

    warnings.simplefilter("ignore")
    good = folder / "good"
    good.mkdir()
    paths = write_good(area, good)
    change: Callable[[Path, Choices], None] = (
        Swapped(paths).mutate if area == "detectors" else _mutate_any
    )
    found: set[str] = set()
    case = folder / "case"

    def run(data: bytes) -> None:
        choices = Choices(data)
        source = paths[choices.integers(len(paths))]
        shutil.rmtree(case, ignore_errors=True)
        case.mkdir()
        target = case / source.name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copyfile(source, target)
        try:
            change(target, choices)
        except Exception:  # what has been made of a file before cannot be changed once more
            return
        try:
            enter(target)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if "typica" in frame.filename][-1:] or frames[-1:]
            place = f"{type(error).__name__} at {Path(own[0].filename).name}:{own[0].lineno}"
            if place not in found:
                found.add(place)
                kept = keep / f"{area}-{len(found)}"
                shutil.copytree(case, kept, dirs_exist_ok=True)
                text = " | ".join(traceback.format_exc().splitlines()[-5:])
                print(f"FOUND {place}: {kept}/{source.name}: {text}", flush=True)

    seeds = folder / "seeds"
    seeds.mkdir()
    rng = np.random.default_rng(13)
    for number in range(SEEDS):
        (seeds / str(number)).write_bytes(rng.bytes(int(rng.integers(4, 60))))
    options = [
        f"-max_total_time={seconds}",
        f"-timeout={SECONDS}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={keep}/{area}-",
        "-max_len=120",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(seeds)], run)
    atheris.Fuzz()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("areas", nargs="*", default=AREAS, choices=AREAS)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "findings")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("there is no atheris for this machine: nothing was mutated")
        return
    given.keep.mkdir(parents=True, exist_ok=True)
    if given.work:
        if MEMORY.is_dir():
            tempfile.tempdir = str(MEMORY)
        with tempfile.TemporaryDirectory() as folder:
            work(given.areas[0], given.seconds, Path(folder), given.keep)
    failed = False
    for area in given.areas:
        command = [sys.executable, __file__, area, "--work", f"--seconds={given.seconds}"]
        command += [f"--keep={given.keep}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = run.stdout.splitlines()
        findings = [line for line in lines if line.startswith("FOUND")]
        counted = [line for line in run.stderr.splitlines() if "number_of_executed" in line]
        print(f"{area}: {len(findings)} findings, {' '.join(counted)}", *findings, sep="\n")
        if run.returncode:
            print(f"{area}: ended with {run.returncode}: {run.stderr[-3000:]}")
        failed = failed or bool(findings) or run.returncode != 0
    sys.exit(failed)


if __name__ == "__main__":
    main()
