"""Run with the core dependencies alone: import, fit, score, save, load, and the command line."""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import typica

for extra in ("torch", "pyarrow", "pandas", "matplotlib"):
    if importlib.util.find_spec(extra) is not None:
        sys.exit(f"this environment is not bare: {extra} is installed")

with tempfile.TemporaryDirectory() as folder:
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    train, held_out = (np.eye(3, 8)[labels] * 5 + rng.random((300, 8)) for _ in range(2))
    np.save(Path(folder, "train.npy"), train)
    np.save(Path(folder, "held_out.npy"), held_out)
    np.save(Path(folder, "labels.npy"), labels)
    detector = typica.CTM().fit(train, labels).calibrate(held_out)
    detector.save(Path(folder, "python.safetensors"))
    loaded = typica.load(Path(folder, "python.safetensors"))
    if not np.array_equal(loaded.predict(train), detector.predict(train)):
        sys.exit("a loaded detector decides otherwise")
    command = [str(Path(sys.executable).parent / "typica")]
    for arguments in (
        [
            "fit",
            "train.npy",
            "--labels",
            "labels.npy",
            "-o",
            "shell.safetensors",
            "--calibrate",
            "held_out.npy",
        ],
        ["score", "shell.safetensors", "train.npy", "--limit", "2"],
        ["evaluate", "shell.safetensors", "train.npy", "--ood", "self=train.npy"],
        ["info", "shell.safetensors"],
        ["detectors"],
    ):
        subprocess.run(command + arguments, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    Path(folder, "x.parquet").touch()
    parquet = subprocess.run(
        [*command, "fit", "x.parquet", "-o", "y.safetensors"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if parquet.returncode != 2 or "pip install 'typica[parquet]'" not in parquet.stderr:
        sys.exit(f"a missing extra is not named: {parquet.stderr}")
print("the bare install imports, fits, scores, saves, loads and runs the command line")
