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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica.cli import main
from typica.errors import InputError
from typica.nets import Settings, explain_images, extract, judge_images

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
    assert "are shown" not in run(capsys, "score", "ctm.safetensors", "new.npy", "--limit", "0")
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
        return [json.loads(line)["row"] for line in out.splitlines()[:-1]]

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
    detector = typica.CTM().fit(bank).calibrate(2 * np.asarray(bank.features), alpha=0.1)
    detector.save("ctm.safetensors")
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


def test_one_rows_story(folder, data: Data, capsys):
    np.savez(
        "known.npz", features=data.held_out, labels=np.array(["a", "b"])[data.labels[:120] % 2]
    )
    detector, new = typica.load("ctm.safetensors"), np.load("new.npy")
    told = detector.explain(new, bank=data.held_out)[40]
    out = run(capsys, "explain", "ctm.safetensors", "new.npy", "--row", "40", "--bank", "known.npz")
    lines = out.splitlines()
    assert lines[0] == "new.npy, row 40" and lines[1].startswith("atypical: score ")
    lower = 100 * np.mean(detector.score_samples(data.held_out) < told.score)
    share = (
        "none of the" if lower == 0 else f"{lower:.2f} % of" if lower < 1 else f"{lower:.1f} % of"
    )
    assert f"more typical than {share} known inputs" in lines
    assert "nearest class" in out and "missing: feature" in out
    nearest = told.neighbours[0]
    label = ["a", "b"][data.labels[nearest.row] % 2]
    assert f"row {nearest.row} ({label}, {nearest.similarity:.4f})" in " ".join(out.split())
    arguments = ("explain", "ctm.safetensors", "new.npy", "--row", "40", "--json", "-")
    document = json.loads(run(capsys, *arguments))
    assert document["row"] == 40 and document["input"] == "new.npy, row 40"
    assert document["score"] == pytest.approx(told.score) and document["neighbours"] == []
    assert document["below"] == pytest.approx(lower)


def test_without_a_row_the_strangest_is_told_of(folder, capsys):
    with pytest.raises(SystemExit):
        main(["explain", "ctm.safetensors", "new.npy"])
    captured = capsys.readouterr()
    strangest = verdicts_of().sort()[0].row
    assert captured.out.startswith(f"new.npy, row {strangest}\n")
    assert f"the strangest of 60 inputs, number {strangest}; --row chooses another" in captured.err
    error = run(capsys, "explain", "ctm.safetensors", "new.npy", "--row", "60", code=2)
    assert "--row 60: new.npy has 60 inputs; pass 0 to 59." in error
    strict = run(capsys, "explain", "ctm.safetensors", "new.npy", "--row", "0", "--alpha", "0.97")
    kept = run(capsys, "explain", "ctm.safetensors", "new.npy", "--row", "0", "--tpr", "0.03")
    assert strict == kept and "\natypical: " in strict


def test_an_images_story_with_the_nearest_known_images(images: Path, capsys):
    photo = "known/red/07.png"
    arguments = ("explain", "ctm.safetensors", photo, "--model", MODEL)
    out = run(capsys, *arguments, "--bank", "a.bank")
    lines = out.splitlines()
    assert lines[0] == photo and lines[1].startswith("typical: ")
    known = " ".join(out.partition("nearest known inputs: ")[2].split())
    assert known.startswith("red/07.png (red, 1.0000), red/")
    document = json.loads(run(capsys, *arguments, "--bank", "a.bank", "--json", "-"))
    assert document["file"] == photo and document["neighbours"][0]["file"] == "red/07.png"
    assert document["examples"] == [one["row"] for one in document["neighbours"]]
    several = run(capsys, "explain", "ctm.safetensors", "noise", "--model", MODEL, "--row", "3")
    assert several.startswith("03.png\n") and "nearest known" not in several


def test_stories_of_images_in_python(images: Path):
    detector, bank = typica.load("ctm.safetensors"), typica.Bank.open("a.bank")
    told = explain_images(detector, "noise", bank, model=MODEL, alpha=0.2)
    judged = judge_images(detector, "noise", model=MODEL, alpha=0.2)
    assert [one.file for one in told] == judged.file.tolist()
    assert [one.typical for one in told] == judged.typical.tolist()
    assert min(told, key=lambda one: one.rank).file == judged.sort()[0].file
    pipeline = make_pipeline(StandardScaler(), typica.CTM())
    pipeline.fit(np.asarray(bank.features), np.array(bank.classes)[bank.labels])
    (one,) = typica.explain(pipeline, bank.features[7:8], bank)
    nearest = one.neighbours[0]
    assert nearest.row == 7 and nearest.similarity == pytest.approx(1)
    assert (nearest.file, nearest.label) == (bank.names[7], bank.classes[bank.labels[7]])
    other = typica.write_bank(
        "b.bank", np.asarray(bank.features), identity={**bank.identity, "weights": "others"}
    )
    with pytest.raises(InputError, match=r"CTM.explain: bank: features of another network"):
        detector.explain(bank.features[:1], bank=other)
