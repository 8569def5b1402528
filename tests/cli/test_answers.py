"""Answers first: the strange rows, some of the rows, a page of them, and one input's story."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.shell import run
from helpers.tinynet import MODEL, SOURCE, write_images, write_noise

import typica
from typica.nets import Settings, extract

PLAIN = Settings(backend="torch", batch=4, threads=1)


@pytest.fixture
def folder(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("new.npy", np.concatenate([data.test[:30], data.ood[:30]]))
    np.save("test.npy", data.test)
    detector = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out)
    detector.save("ctm.safetensors")
    return tmp_path


def verdicts_of(file: str = "new.npy"):
    return typica.load("ctm.safetensors").judge(np.load(file))


def shown_rows(out: str) -> list[int]:
    """Return the numbers of the rows that a printed table shows."""
    lines = [line.split() for line in out.splitlines()]
    return [int(words[0]) for words in lines if len(words) > 1 and words[1].endswith("typical")]


def test_the_strange_rows_come_first_on_the_screen(folder, capsys):
    out = run(capsys, "score", "ctm.safetensors", "new.npy", "--limit", "15")
    wanted = verdicts_of().sort()[:15]
    assert shown_rows(out) == wanted.row.tolist()
    assert "the 15 strangest of 60 are shown" in out
    out = run(capsys, "score", "ctm.safetensors", "new.npy", "--sort", "input", "--limit", "5")
    assert shown_rows(out) == [0, 1, 2, 3, 4] and "the first 5 by input of 60 are shown" in out
    out = run(capsys, "score", "ctm.safetensors", "new.npy", "--sort", "score", "--limit", "60")
    assert shown_rows(out) == np.argsort(verdicts_of().score, kind="stable").tolist()
    assert "are shown" not in out
    error = run(capsys, "score", "ctm.safetensors", "new.npy", "--sort", "size", code=2)
    assert "--sort size: unknown; choose one of p_value, score, margin, nearest, file" in error
    error = run(capsys, "score", "ctm.safetensors", "new.npy", "--sort", "file", code=2)
    assert "there is no file to sort by; choose another, such as score." in error


@pytest.mark.parametrize("kind", ["typical", "atypical"])
def test_only_one_kind(folder, capsys, kind):
    out = run(capsys, "score", "ctm.safetensors", "new.npy", "--only", kind, "--limit", "60")
    verdicts = verdicts_of()
    wanted = verdicts.only(kind).sort()
    assert shown_rows(out) == wanted.row.tolist() and 0 < len(wanted) < 60
    assert f"{verdicts.n_atypical} of 60 rows are atypical" in out  # of all
    arguments = ("score", "ctm.safetensors", "new.npy", "--only", kind, "--json", "-")
    document = json.loads(run(capsys, *arguments))
    assert [row["row"] for row in document["rows"]] == np.sort(wanted.row).tolist()
    assert (document["n"], document["rejected"]) == (60, verdicts.n_atypical)


def test_nothing_strange_shows_no_table(folder, capsys):
    typical = verdicts_of("test.npy").only("typical").row
    np.save("fine.npy", np.load("test.npy")[typical])
    arguments = ("score", "ctm.safetensors", "fine.npy", "--only", "atypical")
    out = run(capsys, *arguments, "-o", "none.csv")
    assert out == f"0 of {len(typical)} rows are atypical, 0.00 %\n"
    assert len(Path("none.csv").read_text().splitlines()) == 1


def test_files_keep_the_order_of_the_input_unless_told_otherwise(folder, capsys):
    def written(*options: str) -> list[int]:
        run(capsys, "score", "ctm.safetensors", "new.npy", "-o", "rows.csv", *options)
        rows = csv.DictReader(Path("rows.csv").read_text().splitlines())
        return [int(row["row"]) for row in rows]

    assert written() == list(range(60))
    assert written("--sort", "p_value") == verdicts_of().sort().row.tolist()
    assert written("--only", "atypical") == np.flatnonzero(~verdicts_of().typical).tolist()


def test_a_pipe_is_filtered_as_it_comes_and_sorted_at_its_end(folder, capsys, monkeypatch):
    def printed(*options: str) -> list[int]:
        content = io.BytesIO(Path("new.npy").read_bytes())
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(content)))
        out = run(capsys, "score", "ctm.safetensors", "-", "-o", "-", *options)
        return [json.loads(line)["row"] for line in out.splitlines()]

    assert printed() == list(range(60))
    assert printed("--only", "atypical") == verdicts_of().only("atypical").row.tolist()
    assert printed("--sort", "p_value") == verdicts_of().sort().row.tolist()


def test_a_page_of_rows(folder, capsys):
    run(capsys, "score", "ctm.safetensors", "new.npy", "-o", "page.html")
    page = Path("page.html").read_text()
    assert f"<title>{verdicts_of().n_atypical} of 60 rows are atypical" in page
    assert page.count("<tr>") == 1 + verdicts_of().n_atypical and "<img" not in page
    assert "CTM: 4 classes, 12 features" in page


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A detector of images, known ones and strange ones."""
    (tmp_path / "tiny.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "tiny", raising=False)
    write_images(tmp_path / "known")
    write_noise(tmp_path / "noise")
    bank = extract("known", MODEL, "a.bank", settings=PLAIN)
    typica.CTM().fit(bank).calibrate(bank, alpha=0.1).save("ctm.safetensors")
    return tmp_path


def test_a_gallery_of_images(images: Path, capsys):
    (images / "noise" / "00.png").write_bytes(b"no image")  # numbers and images now differ by one
    arguments = ("ctm.safetensors", "noise", "known", "--model", MODEL, "--on-error", "skip")
    document = json.loads(
        run(capsys, "score", *arguments, "-o", "page.html", "--json", "-", "--only", "atypical")
    )
    page = Path("page.html").read_text()
    rejected = [row["file"] for row in document["rows"]]
    assert len(rejected) > 20 and page.count("<img") == len(rejected)
    assert "noise/00.png" not in page and 'alt="noise/01.png"' in page
    assert "of 89 images are atypical" in page
