"""A detector whose file is replaced is read again; a file that is broken changes nothing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import MODEL, Serving, eventually, serving

import typica
from typica.files import sha256


@pytest.fixture(scope="module")
def places(known, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replaced")
    for name in ("ctm", "seen"):
        shutil.copyfile(known.file(name), folder / f"{name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def watched(known, places: Path) -> Iterator[Serving]:
    files = [places / "ctm.safetensors", places / "seen.safetensors"]
    with serving(*files, "--model", MODEL, env=known.env) as server:
        yield server


def version(known, alpha: float) -> typica.CTM:
    """Return the detector with another threshold, so that it can be told apart."""
    rows, labels = known.rows.astype(np.float64), np.arange(300) % 3
    return typica.CTM().fit(rows[:150], labels[:150]).calibrate(rows[150:], alpha=alpha)


def digest(server: Serving, name: str = "ctm") -> str:
    return server.ask(f"/models/{name}").json()["digest"]


def reloads(server: Serving, outcome: str, name: str = "ctm") -> float:
    return server.metrics()[f'typica_reloads_total{{model="{name}",outcome="{outcome}"}}']


def has_failed(server: Serving, count: float) -> bool:
    return reloads(server, "failed") == count


def test_a_file_that_is_replaced(watched: Serving, known, places: Path) -> None:
    file = places / "ctm.safetensors"
    before = reloads(watched, "done")
    for number, alpha in enumerate((0.3, 0.2)):
        version(known, alpha).save(file)
        eventually(lambda: digest(watched) == sha256(file))
        told = watched.ask("/models/ctm").json()
        assert told["calibration"]["alpha"] == alpha
        expected = typica.load(file).judge(known.rows[:20].astype(np.float64))
        found = watched.post("/score?model=ctm", {"features": known.rows[:20].tolist()}).json()[
            "results"
        ]
        assert [row["verdict"] for row in found] == expected.verdict.tolist()
        assert {row["threshold"] for row in found} == set(expected.threshold.tolist())
        assert reloads(watched, "done") == before + number + 1
    infos = [
        name
        for name in watched.metrics()
        if name.startswith("typica_detector_info") and 'model="ctm"' in name
    ]
    assert len(infos) == 1 and sha256(file)[:12] in infos[0]


def test_a_broken_file_keeps_the_detector(watched: Serving, known, places: Path) -> None:
    file = places / "ctm.safetensors"
    good, whole = digest(watched), file.read_bytes()
    for broken in (
        b"",
        b"no detector",
        whole[: len(whole) // 2],
        whole[:-1] + bytes([whole[-1] ^ 1]),
    ):
        failed = reloads(watched, "failed") + 1
        replaced = file.with_suffix(".new")
        replaced.write_bytes(broken)
        replaced.replace(file)
        eventually(partial(has_failed, watched, failed))
        assert digest(watched) == good
        assert watched.infer("ctm", known.rows[:3]).status == 200
    file.unlink()
    assert watched.infer("ctm", known.rows[:3]).status == 200
    version(known, 0.15).save(file)
    eventually(lambda: digest(watched) == sha256(file))
    assert watched.events("reload failed")[0]["level"] == "error"


def test_a_file_that_is_overwritten_in_place(watched: Serving, known, places: Path) -> None:
    """As `cp` does it: emptied, and then written bit by bit."""
    file = places / "ctm.safetensors"
    version(known, 0.12).save(places / "other")
    whole = (places / "other").read_bytes()
    with file.open("wb") as target:
        for start in range(0, len(whole), 500):
            target.write(whole[start : start + 500])
            target.flush()
            assert watched.infer("ctm", known.rows[:1]).status == 200
    eventually(lambda: digest(watched) == sha256(file))


def test_a_reload_that_would_lose_images_is_refused(watched: Serving, known, places: Path) -> None:
    file = places / "seen.safetensors"
    good, before = digest(watched, "seen"), reloads(watched, "failed", "seen")
    rng = np.random.default_rng(0)
    typica.CTM().fit(rng.random((30, 12)), np.arange(30) % 3).save(file)
    eventually(lambda: reloads(watched, "failed", "seen") > before)
    assert digest(watched, "seen") == good
    assert watched.score(("a", known.photos[0]), query="?model=seen").status == 200


def test_replaced_again_and_again_under_load(watched: Serving, known, places: Path) -> None:
    """No request fails, and each is answered by one version as a whole."""
    file = places / "ctm.safetensors"
    versions = [version(known, alpha) for alpha in (0.05, 0.5)]
    rows = known.rows[:30].astype(np.float64)
    wanted = {}
    for some in versions:
        expected = some.judge(rows)
        wanted[expected.threshold[0]] = expected.verdict.tolist()
    done = threading.Event()

    def ask() -> set[float]:
        seen = set()
        while not done.is_set():
            answer = watched.post("/score?model=ctm", {"features": rows.tolist()})
            assert answer.status == 200, answer
            results = answer.json()["results"]
            [threshold] = {row["threshold"] for row in results}
            if threshold in wanted:  # the one from before the first may answer too
                assert [row["verdict"] for row in results] == wanted[threshold]
            seen.add(threshold)
        return seen

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        try:
            for number in range(10):
                versions[number % 2].save(file)
                eventually(lambda: digest(watched) == sha256(file))
        finally:
            done.set()
        thresholds = set().union(*[future.result() for future in asking])
    assert set(wanted) <= thresholds


def test_a_threshold_of_ties_is_logged(known, tmp_path: Path) -> None:
    labels = np.arange(200) % 2
    rows = np.eye(2)[labels] * np.linspace(1, 2, 200)[:, None]  # all of a class in one direction
    detector = typica.CTM().fit(rows, labels)
    with pytest.warns(typica.CalibrationWarning, match="equal the threshold"):
        detector.calibrate(3 * rows)
    detector.save(tmp_path / "tied.safetensors")
    with serving(tmp_path / "tied.safetensors", env=known.env) as server:
        (event,) = server.events("calibration")
    assert event["level"] == "warning" and "equal the threshold" in event["reason"]
