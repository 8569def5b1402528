"""Detectors of features and of images, and servers of them that several tests share."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import MODEL, SOURCE, Serving, serving
from helpers.tinynet import write_images
from PIL import Image

import typica
from typica.nets import extract, judge_images

WIDTH = 16
TOKEN = "a-token-of-32-letters-and-digits"


@dataclass(frozen=True)
class Known:
    """What the servers of these tests serve, and inputs for it."""

    folder: Path
    rows: np.ndarray  # of features like those that the detectors were fitted on
    strange: np.ndarray
    photos: list[bytes]

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to find the network."""
        config = str(self.folder / "config")
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        return {"PYTHONPATH": path, "XDG_CONFIG_HOME": config, "TYPICA_HOME": config}

    def images(self, photos: list[bytes]) -> np.ndarray:
        return np.stack([np.asarray(Image.open(io.BytesIO(photo))) for photo in photos])

    def judge(self, images: np.ndarray) -> typica.Verdicts:
        """Return the verdicts on images, by the library."""
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(self.folder))
            return judge_images(typica.load(self.file("seen")), images, model=MODEL)

    @property
    def gate(self) -> Path:
        """The file that holds the network up while it is there."""
        return self.folder / "gate"


@pytest.fixture(scope="session")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Known]:
    folder = tmp_path_factory.mktemp("served")
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 3
    rows = rng.random((600, WIDTH)) + 3 * np.eye(3, WIDTH)[labels]
    plain = typica.CTM().fit(rows[:300], labels[:300])
    plain.save(folder / "raw.safetensors")
    plain.calibrate(rows[300:], alpha=0.05).save(folder / "ctm.safetensors")
    knn = typica.KNN(k=3).fit(rows[:300], labels[:300]).calibrate(rows[300:], alpha=0.1)
    knn.save(folder / "knn.safetensors")
    images = write_images(folder / "images", each=40)
    with pytest.MonkeyPatch.context() as patch:
        (folder / f"{MODEL.partition(':')[0]}.py").write_text(SOURCE)
        patch.syspath_prepend(str(folder))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        bank = extract(images, MODEL, folder / "train.bank")
        seen = typica.CTM().fit(bank)
        held_out = 2 * np.asarray(bank.features)  # other rows with the same cosines
        seen.calibrate(held_out, alpha=0.1).save(folder / "seen.safetensors")
    photos = [path.read_bytes() for path in sorted(images.rglob("*.png"))]
    yield Known(folder, rows[300:].astype(np.float32), -rows.astype(np.float32), photos)


@pytest.fixture(scope="session")
def server(known: Known) -> Iterator[Serving]:
    """A server with defaults: features, features without a calibration, images."""
    files = [known.file(name) for name in ("ctm", "raw", "knn", "seen")]
    with serving(*files, "--model", MODEL, env=known.env) as server:
        yield server
