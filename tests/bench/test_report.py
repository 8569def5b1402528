"""The report's file: what it holds.

Its numbers are the scores' own, and no name turns into markup.
"""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.reports import METHODS, copy, write_experiments, write_folder
from helpers.shell import run
from helpers.watcher import Watcher
from PIL import Image
from scipy.stats import beta

from typica.bench import (
    Scores,
    Workbench,
    builtin_features,
    keep_result,
    load_suite,
    read_result,
    run_experiment,
    tables_of,
    write_gallery,
    write_report,
)
from typica.bench._analysis_record import Analysis
from typica.bench.report import _page_data
from typica.bench.report._page_data import EXACT_UP_TO
from typica.errors import FormatError, InputError
from typica.progress import watched_by


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("digits") / "result")


class Page(HTMLParser):
    """The elements of a page: how often each is used, its attributes, and each script's text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self._inside = tag
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style":
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self) -> dict:
        return json.loads(self.scripts[0])


def page_of(folder: Path, tmp_path: Path) -> Page:
    return Page(write_report(folder, tmp_path / "report.html").read_text(encoding="utf-8"))


def unpacked(entry: dict, single: bool) -> np.ndarray:
    return np.frombuffer(base64.b64decode(entry["scores"]), dtype="<f4" if single else "<f8")


def test_the_page_needs_nothing_from_elsewhere(folder, tmp_path):
    page = page_of(folder, tmp_path)
    policy = next(
        a["content"] for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    )
    sources = [
        v
        for _, a in page.elements
        for k, v in a.items()
        if k in ("src", "href", "srcset", "action", "data")
    ]
    assert sources and all(v.startswith(("#", "data:")) for v in sources)
    text = (tmp_path / "report.html").read_text()
    assert (
        "@import" not in text
        and "url(http" not in text
        and "$" not in re.sub(r"<(script|style).*?</\1>", "", text, flags=re.S)
    )


def test_the_same_folder_gives_the_same_bytes(folder, tmp_path):
    first = write_report(folder, tmp_path / "a.html").read_bytes()
    assert write_report(folder, tmp_path / "b.html").read_bytes() == first


def test_scores_are_embedded_exactly_in_their_own_precision(folder, tmp_path):
    methods = {method["name"]: method for method in page_of(folder, tmp_path).data["methods"]}
    assert set(methods) == set(METHODS)
    for name, method in methods.items():
        with np.load(folder / "scores" / f"{name}.npz") as arrays:
            assert method["float32"] == (name != "energy")
            assert np.array_equal(
                unpacked(method["test"], method["float32"]), np.sort(arrays["test"])
            )
            for entry in method["sets"]:
                scores = arrays[f"ood.{entry['name']}"]
                assert np.array_equal(
                    unpacked(entry, method["float32"]), np.sort(scores)
                ) and entry["n"] == len(scores)


def test_large_sets_are_thinned_and_the_page_says_so(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    rng = np.random.default_rng(0)
    many = rng.normal(size=EXACT_UP_TO + 1000).astype(np.float32)
    np.savez(
        copied / "scores" / "ctm.npz",
        test=rng.normal(size=50).astype(np.float32),
        **{"ood.photos": many},
    )
    page = page_of(copied, tmp_path)
    entry = next(m for m in page.data["methods"] if m["name"] == "ctm")["sets"][0]
    kept = unpacked(entry, True)
    assert entry["n"] == len(many) and len(kept) == EXACT_UP_TO
    for threshold in (-2.0, 0.0, 1.3):
        assert abs(np.mean(kept >= threshold) - np.mean(many >= threshold)) <= 1 / EXACT_UP_TO
    assert "photos: represented by 32,768 evenly spread order statistics" in page.text
    assert "order statistics" not in page_of(folder, tmp_path).text


def test_calibration_agrees_with_counting(folder, tmp_path):
    for method in page_of(folder, tmp_path).data["methods"]:
        with np.load(folder / "scores" / f"{method['name']}.npz") as arrays:
            split = "calibration" not in arrays
            held_out, test = (
                (arrays["test"][::2], arrays["test"][1::2])
                if split
                else (arrays["calibration"], arrays["test"])
            )
        found = method["calibration"]
        assert found["split"] == split == (method["name"] == "msp")
        assert [round(100 * point["tpr"]) for point in found["points"]] == list(range(80, 100))
        for point in found["points"]:
            # k = floor((n + 1)(1 - tpr)) in whole numbers
            k = (len(held_out) + 1) * (100 - round(100 * point["tpr"])) // 100
            threshold = sorted(held_out.tolist())[k - 1] if k else -math.inf
            kept = sum(score >= threshold for score in test.tolist())
            assert (float(point["threshold"]), point["kept"]) == (threshold, kept)
            n = len(test)
            assert point["low"] == pytest.approx(beta.ppf(0.025, kept, n - kept + 1))
            assert point["high"] == pytest.approx(
                1.0 if kept == n else beta.ppf(0.975, kept + 1, n - kept)
            )


def test_tables_show_the_numbers_and_what_was_published(folder, tmp_path):
    page = page_of(folder, tmp_path)
    document = json.loads((folder / "result.json").read_text())
    text = (tmp_path / "report.html").read_text()
    for entry in document["results"].values():
        for metrics in (*entry["ood"].values(), entry["average"]):
            assert (
                f">{100 * metrics['auroc']:.2f}<" in text
                and f">{100 * metrics['fpr']:.2f}<" in text
            )
    assert "± 0.40" in page.text
    # A method that was only published has its row, and what was skipped its reason.
    assert (
        ">odin<" in text
        and "needs images; pass --data DIR" in page.text
        and "absent; see `typica suite list`" in page.text
    )
    best = max(document["results"], key=lambda name: document["results"][name]["average"]["auroc"])
    assert re.search(
        rf'<th scope="row" data-v="{best}">{best}</th>'
        r'<td class="num" data-v="[^"]+"><span class="star"',
        text,
    )


def table_rows(text: str, key: str) -> dict[str, list[str]]:
    """The cells of a table of the page by the first of each row, as text."""
    body = re.search(rf'id="table-{key}".*?<tbody>(.*?)</tbody>', text, flags=re.S).group(1)
    rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", body)
    ]
    texts = [[re.sub(r"<[^>]*>| best", "", cell).strip() for cell in row] for row in rows]
    return {row[0]: row[1:] for row in texts}


def test_averages_say_what_they_cover_and_the_published_cover_the_same(folder, tmp_path):
    page = page_of(folder, tmp_path)
    text = (tmp_path / "report.html").read_text()
    results = json.loads((folder / "result.json").read_text())["results"]
    assert (
        "Mean of 5 OOD sets (held-out-digits, rotated, inverted, photos, noise), in percent"
        in page.text
    )
    assert "Beside the published numbers: mean of 1 of 5 OOD sets (photos), in percent" in page.text
    main, beside = table_rows(text, "main"), table_rows(text, "paper")
    assert (
        main["ctm"][0].removeprefix("★").split()[0]
        == f"{100 * results['ctm']['average']['auroc']:.2f}"
        and len(main["ctm"]) == 5
    )
    ours = results["ctm"]["ood"]["photos"]["auroc"]
    assert beside["ctm"][0].removeprefix("★").split()[0] == f"{100 * ours:.2f}"
    assert beside["ctm"][1:3] == [
        "95.00",
        f"{100 * (ours - 0.95):+.2f}".replace("-", "\N{MINUS SIGN}"),
    ]
    assert beside["odin"][:3] == ["–", "90.00", "–"] and "odin" not in main  # noqa: RUF001 (dashes)
    assert "mean of 5" in re.search(r'<table class="heatmap".*?</thead>', text, flags=re.S).group(0)
    assert "mean of 5 OOD sets" in re.search(r'<dl class="tiles">.*?</dl>', text, flags=re.S).group(
        0
    )


def test_where_the_paper_has_every_set_its_average_stands_as_printed(folder, tmp_path):
    results = json.loads((folder / "result.json").read_text())["results"]
    everywhere = {name: {"auroc": 0.9, "fpr": 0.1} for name in results["ctm"]["ood"]}
    printed = {"auroc": 0.8, "fpr": 0.2}
    whole = {
        "ctm": everywhere | {"average": printed, "common": {"sets": list(everywhere), **printed}}
    }
    page = page_of(copy(folder, tmp_path / "r", published=whole), tmp_path)
    rows = table_rows((tmp_path / "report.html").read_text(), "main")
    # Even where it is not the mean of its row.
    assert (
        rows["ctm"][1] == "80.00"
        and f"{100 * (results['ctm']['average']['auroc'] - 0.8):+.2f}" == rows["ctm"][2]
    )
    assert "Beside the published" not in page.text


def test_experiments_have_their_sections_with_the_papers_numbers(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    write_experiments(copied)
    page = page_of(copied, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert {"ablation", "layers", "misclassification"} <= {a["id"] for a in page.all("section")}
    assert {"#ablation", "#layers", "#misclassification"} <= {a.get("href") for a in page.all("a")}
    rows = table_rows(text, "ablation-0")
    # Ours over the two sets that the paper has: an error of .15 on average, and a deviation of
    # hypot(.3, .3) / 2.
    assert rows["CM (CTM)"] == [
        "90.00",
        "94.40",
        "−4.40",  # noqa: RUF001
        "★ 85.00 ± 0.21",
        "96.40",
        "★ 15.00 ± 0.28",
    ]
    assert rows["Standard (max logit)"][0] == "91.00" and rows["CW"][1] == "–"  # noqa: RUF001 (a dash)
    rows = table_rows(text, "layers-0")
    assert (
        rows["conv1"] == ["45.00 ± 0.28", "95.07", "55.00 ± 0.21", "53.59"]
        and "block3: absent" in rows
    )
    for note in (
        "Not in the means, as the paper has no such set: mine.",
        "The paper's means are those of its 6 OOD sets.",
    ):
        assert page.text.count(note) == 2
    assert "write train.layer.block3.npy" in page.text and "ood.isun.features.npy" not in page.text
    depths = {chart["title"]: chart for chart in page.data["depths"]}
    assert depths["AUROC"]["names"] == ["conv1", "penultimate"] and set(depths) == {
        "AUROC",
        "FPR95",
    }
    assert [line["y"] for line in depths["AUROC"]["series"]] == [
        pytest.approx([0.55, 0.85]),
        [0.5359, 0.964],
    ]


def test_the_networks_mistakes_best_first(folder, tmp_path):
    page_of(folder, tmp_path)
    rows = table_rows((tmp_path / "report.html").read_text(), "misclassification-0")
    assert list(rows) == list(reversed(METHODS))
    assert rows["knn"] == ["★ 10.00", "★ 5.00"] and rows["ctm"] == ["40.00", "20.00"]


def test_the_analysis_has_its_tables(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    suite = load_suite("digits")
    document = run_experiment("analysis", suite, builtin_features(suite), {}).record.to_dict()
    (copied / "analysis.json").write_text(json.dumps(document))
    page = page_of(copied, tmp_path)
    rows = table_rows((tmp_path / "report.html").read_text(), "analysis-0")
    assert (
        rows["exact"][0] == f"{100 * document['kernel']['exact']['auroc']['held-out-digits']:.2f}"
    )
    assert [chart["title"] for chart in page.data["histograms"]][:2] == [
        "Feature norm",
        "Cosine to the nearest class mean",
    ]
    assert len(page.all("caption")) == len(page.all("table"))


def test_the_heat_map_offers_the_metrics_that_have_numbers(folder, tmp_path):
    def offered(result: Path) -> list[str]:
        page_of(result, tmp_path)
        text = (tmp_path / "report.html").read_text()
        return re.findall(r'name="metric" value="\w+"[^>]*><span>(.*?)</span>', text)

    assert offered(folder) == ["AUROC", "FPR95"]
    results = json.loads((folder / "result.json").read_text())["results"]
    for row in results.values():
        for measured in (row["average"], *row["ood"].values()):
            del measured["fpr"]
    assert offered(copy(folder, tmp_path / "r", results=results)) == ["AUROC"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ablation.json", "{", "ablation.json: not a whole JSON file"),
        ("layers.json", "[]", "layers.json: not a benchmark's result"),
        (
            "layers.json",
            '{"suite": "a", "protocol": {}, "results": {}}',
            "layers.json: not what `--experiment layers` writes",
        ),
        (
            "analysis.json",
            '{"kernel": 1, "one_hot": 2, "motivation": 3}',
            "analysis.json: not what `--experiment analysis` writes",
        ),
    ],
)
def test_a_broken_experiment_is_named(folder, tmp_path, name, content, message):
    copied = copy(folder, tmp_path / "r")
    (copied / name).write_text(content)
    with pytest.raises(FormatError, match=re.escape(message)):
        write_report(copied, tmp_path / "report.html")


def changed(document: Any, path: str, value: Any) -> Any:
    """Return a JSON document with one of its parts, named by keys with / between, another."""
    document = json.loads(json.dumps(document))
    *parents, last = path.split("/")
    place = document
    for key in parents:
        place = place[key]
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("kernel", {}, "has no form of the kernel"),
        ("kernel", 1, "not what `--experiment analysis` writes (AttributeError"),
        ("kernel/exact/auroc/photos", "x", "has 'x' in place of a number"),
        ("kernel/exact/max", None, "has None in place of a number"),
        ("kernel/cosine/auroc", {"photos": 0.5}, "lacks 'held-out-digits' in a part"),
        ("kernel/exact/correlation/all/spearman", [], "has [] in place of a number"),
        ("one_hot/probability/mean", "x", "has 'x' in place of a number"),
        ("one_hot/classes", [{"class": 1}], "not what `--experiment analysis` writes (KeyError"),
        ("curves/variation/y/photos", [0.5], "has 1 numbers in place of"),
        ("curves/variation/y", {}, "lacks 'test' in a part"),
        ("curves/variation/x", "x", "has a chart without numbers"),
        ("curves", {}, "not what `--experiment analysis` writes (KeyError"),
        ("motivation/auroc/norm/photos", "x", "has 'x' in place of a number"),
        ("motivation/caught_by", 3, "not what `--experiment analysis` writes (AttributeError"),
        ("motivation/caught_by/photos/auroc", "x", "has 'x' in place of a number"),
        ("steps/sizes", "x", "has a chart without numbers"),
        ("steps/at_means/before", "x", "has 'x' in place of a number"),
        ("steps/at_means/after", [0.5], "has 1 numbers in place of 10"),
        ("steps/auroc/variation/photos", [0.5], "has 1 numbers in place of 10"),
        ("histograms/norm/counts/test", [1], "has 1 numbers in place of 60"),
        ("histograms/norm/counts/test", [0.5] * 60, "has 0.5 in place of a count"),
        ("histograms/norm/mean", 3, "not what `--experiment analysis` writes (AttributeError"),
    ],
)  # fmt: skip
def test_an_analysis_with_other_things_in_place_of_numbers_is_named(
    folder, tmp_path, path, value, message
):
    copied = copy(folder, tmp_path / "r")
    document = json.loads((folder / "analysis.json").read_text())
    (copied / "analysis.json").write_text(json.dumps(changed(document, path, value)))
    with pytest.raises(FormatError, match=re.escape(f"analysis.json: {message}")):
        write_report(copied, tmp_path / "report.html")


def test_an_analysis_is_read_as_it_was_written_whatever_stands_beside(folder):
    document = json.loads((folder / "analysis.json").read_text())
    more = document
    for path in ("steps", "steps/at_means", "motivation/caught_by/photos", "histograms/norm"):
        more = changed(more, f"{path}/of_a_later_version", 1)
    assert more != document
    assert Analysis.from_dict(more).to_dict() == Analysis.from_dict(document).to_dict()
    written = Analysis.from_dict(document).to_dict()
    assert json.dumps(written) == json.dumps({name: document[name] for name in written})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("n/test", "x"),
        ("near", [[]]),
        ("absent", [{}]),
        ("left_out", {"test": 3}),
        ("results/ctm/ood/photos/subsets", "x"),
        ("results/ctm/ood/photos/n", "x"),
        ("results/ctm/params/k_grid", 3),
        ("published/ctm/common", {"sets": [[]], "of": "x"}),
    ],
)
def test_other_things_in_a_result_are_passed_over(folder, tmp_path, path, value):
    copied = copy(folder, tmp_path / "r")
    document = changed(json.loads((folder / "result.json").read_text()), path, value)
    (copied / "result.json").write_text(json.dumps(document))
    assert "Take " in page_of(copied, tmp_path).text
    for experiment in ("main", "detail", "misclassification"):
        record = replace(read_result(copied), experiment=experiment)
        assert tables_of(record, against="paper")[0].notes


@pytest.mark.parametrize(
    "other",
    [
        {"suite": "cifar10-densenet"},
        {"protocol": {"tpr": 0.95, "convention": "first", "subsets": 5, "seed": 1}},
        {"n": {"train": 632, "test": 317}},
    ],
)
def test_experiments_of_other_runs_are_left_out_of_the_page(folder, tmp_path, other):
    copied = copy(folder, tmp_path / "r")
    analysis = json.loads((folder / "analysis.json").read_text())
    (copied / "analysis.json").write_text(json.dumps(analysis | other))
    write_experiments(copied, **other)
    watcher = Watcher()
    with watched_by(watcher):
        page = page_of(copied, tmp_path)
    sections = {a["id"] for a in page.all("section") if "hidden" not in a}
    assert not sections & {"ablation", "layers", "analysis"} and "misclassification" in sections
    named = [note.partition(" is left out: ")[0] for note in watcher.notes]
    assert named == [str(copied / f"{name}.json") for name in ("ablation", "layers", "analysis")]
    again = f"run `typica bench SUITE --experiment layers -o {copied}` again"
    assert watcher.notes[1].endswith(f"it has another suite, protocol or data; {again}")


def test_an_ood_set_that_came_in_between_does_not_part_the_experiments(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    document = json.loads((folder / "analysis.json").read_text())
    del document["n"]["photos"]
    (copied / "analysis.json").write_text(json.dumps(document))
    assert page_of(copied, tmp_path).data["histograms"]


def test_the_accuracy_is_the_networks_own_or_not_shown(folder, tmp_path):
    assert "Accuracy of the network" in page_of(folder, tmp_path).text
    page = page_of(copy(folder, tmp_path / "r", accuracy={"cm": 0.96}), tmp_path)
    assert "Accuracy of the network" not in page.text
    assert "accuracy by cosine to the class means (CM)" in page.text


@pytest.mark.parametrize("experiment", ["main", "detail", "misclassification"])
def test_the_page_begins_with_its_sentence_whatever_was_asked_for(folder, tmp_path, experiment):
    page = page_of(copy(folder, tmp_path / "r", experiment=experiment), tmp_path)
    assert "4 methods were tested on 5 OOD sets" in page.text


def test_a_head_of_more_classes_costs_the_page_its_analysis_alone(tmp_path):
    suite = replace(load_suite("digits"), methods={"ctm": {}, "msp": {}})
    sets = builtin_features(suite)
    known, known_test = sets.train_labels != 6, sets.test_labels != 6
    fewer = replace(
        sets,
        train=sets.train[known],
        train_labels=sets.train_labels[known],
        test=sets.test[known_test],
        test_labels=sets.test_labels[known_test],
        layers={},
        images={},
    )
    workbench, watcher = Workbench(fewer), Watcher()
    outcome = run_experiment("main", suite, fewer, suite.methods, workbench=workbench)
    with watched_by(watcher):
        written = list(keep_result(tmp_path, outcome, suite, workbench, report=True))
    assert [path.name for path in written] == ["result.json", "report.html"]
    [note] = watcher.notes
    assert note.startswith("the report has no analysis (")
    assert "the head has a class 6 without training rows" in note
    assert not (tmp_path / "analysis.json").exists()


def test_no_name_in_an_experiment_becomes_markup(folder, tmp_path):
    evil = "<img src=x onerror=alert(1)></script><!--"
    copied = copy(folder, tmp_path / "r")
    write_experiments(
        copied,
        title=evil,
        skipped={evil: evil},
        n={"train": 1, evil: 1, "svhn": 1, "textures": 1},
    )
    page = page_of(copied, tmp_path)
    assert len(page.scripts) == 2 and "<" not in page.scripts[0] and evil in page.text
    assert all(a["src"].startswith("data:") for a in page.all("img"))


def test_no_name_becomes_markup(folder, tmp_path):
    evil = "<img src=x onerror=alert(1)></script><!--"
    document = json.loads((folder / "result.json").read_text())
    entry = document["results"].pop("knn")
    entry["ood"] = {f"set {evil}": entry["ood"]["photos"]}
    entry["params"] = {evil: [evil]}
    named = {
        "results": document["results"] | {f"method {evil[:20]}": entry},
        "title": f"title {evil}",
        "suite": evil,
    }
    changed = named | {
        "skipped": {evil: evil},
        "near": [f"set {evil}"],
        "protocol": {"tpr": 0.95, evil: evil},
    }
    copied = copy(
        folder,
        tmp_path / "r",
        **changed,
        n={evil: 3},
        accuracy={evil: 0.5},
        published={evil: {"average": {"auroc": 1}}},
    )
    with np.load(copied / "scores" / "knn.npz") as arrays:
        strange = {"test": arrays["test"], f"ood.set {evil}": arrays["ood.photos"]}
        np.savez(copied / "scores" / f"method {evil[:20]}.npz", **strange)
    gallery = json.loads((copied / "gallery.json").read_text())
    gallery = [
        item | dict.fromkeys(("set", "name", "nearest", "label", "kind", "method"), evil)
        for item in gallery
    ]
    (copied / "gallery.json").write_text(json.dumps(gallery))
    page = page_of(copied, tmp_path)
    assert len(page.scripts) == 2 and "<" not in page.scripts[0]
    method = next(m for m in page.data["methods"] if m["name"] == f"method {evil[:20]}")
    assert [entry["name"] for entry in method["sets"]] == [f"set {evil}"]
    assert all(a["src"].startswith("data:image/png;base64,") for a in page.all("img"))
    assert not [a for _, a in page.elements if any(key.startswith("on") for key in a)]
    assert f"title {evil}" in page.text


def test_gallery_holds_its_images(folder, tmp_path):
    page = page_of(folder, tmp_path)
    images = page.all("img")
    assert len(images) == 12 and all(p["class"] == "small" for p in images)
    assert (
        base64.b64decode(images[0]["src"].partition(",")[2])
        == (folder / "gallery" / "0-0.png").read_bytes()
    )
    assert images[0]["alt"] == "typical from the ID test set: is 0, nearest 4, score 0.9123"
    assert images[6]["alt"] == "missed from photos: nearest 4, score 0.7123"
    assert all(
        heading in page.text for heading in ("Most typical", "Borderline", "Missed", "False alarms")
    )


def test_large_images_are_scaled_down(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    Image.new("RGB", (2000, 1000), "red").save(copied / "gallery" / "0-0.png")
    first = page_of(copied, tmp_path).all("img")[0]
    assert (
        first["src"].startswith("data:image/jpeg")
        and len(first["src"]) < 20_000
        and "class" not in first
    )


def test_without_gallery_analysis_and_scores(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    for name in ("gallery.json", "analysis.json", *(f"scores/{method}.npz" for method in METHODS)):
        (copied / name).unlink()
    page = page_of(copied, tmp_path)
    assert page.data["methods"] == [] and not page.all("img")
    hidden = {a["id"] for a in page.all("section") if "hidden" in a}
    assert hidden == {"threshold", "calibration", "gallery", "analysis"}
    assert "#threshold" not in {a.get("href") for a in page.all("a")}


def test_every_table_has_a_caption_and_every_control_a_label(folder, tmp_path):
    page = page_of(folder, tmp_path)
    assert len(page.all("caption")) == len(page.all("table")) >= 6
    assert {a["lang"] for a in page.all("html")} == {"en"}
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("break_it", "kind", "message"),
    [
        (lambda f: (f / "result.json").unlink(), InputError, "result.json: there is no such file"),
        (lambda f: (f / "result.json").write_text("{"), FormatError, "not a whole JSON file"),
        (
            lambda f: (f / "result.json").write_text('{"suite": 1, "protocol": {}, "results": {}}'),
            FormatError,
            "has no results",
        ),
        (
            lambda f: (f / "result.json").write_text(
                '{"suite": 1, "protocol": {}, "results": {"a": 1}}'
            ),
            FormatError,
            "'a' has no results on OOD sets",
        ),
        (lambda f: (f / "gallery.json").write_text("["), FormatError, "gallery.json: not JSON"),
        (
            lambda f: (f / "gallery.json").write_text('[{"file": "../x.png"}]'),
            InputError,
            "lies outside; copy it",
        ),
        (
            lambda f: (f / "gallery.json").write_text('[{"file": "/etc/x.png"}]'),
            InputError,
            "lies outside; copy it",
        ),
        (
            lambda f: (f / "gallery.json").write_text('[{"file": "a\\u0000b"}]'),
            InputError,
            "the gallery's image cannot be read",
        ),
        (
            lambda f: Image.new("1", (30_000, 30_000)).save(f / "gallery" / "0-0.png"),
            InputError,
            "0-0.png: the gallery's image cannot be read",
        ),
        (
            lambda f: (f / "gallery" / "0-0.png").write_text("no image"),
            InputError,
            "0-0.png: the gallery's image cannot be read",
        ),
        (
            lambda f: (f / "scores" / "ctm.npz").write_text("no archive"),
            FormatError,
            "ctm.npz: not a whole .npz file",
        ),
        (
            lambda f: np.savez(f / "scores" / "ctm.npz", x=np.zeros(3)),
            FormatError,
            "has no array 'test'",
        ),
        (
            lambda f: np.savez(f / "scores" / "ctm.npz", test=np.array([1, np.nan])),
            FormatError,
            "test has NaN among its scores",
        ),
        (
            lambda f: np.savez(f / "scores" / "ctm.npz", test=np.zeros((2, 2))),
            FormatError,
            "not a row of scores",
        ),
    ],
)
def test_a_broken_folder_is_named_and_nothing_is_written(folder, tmp_path, break_it, kind, message):
    copied = copy(folder, tmp_path / "r")
    break_it(copied)
    with pytest.raises(kind, match=re.escape(message)):
        write_report(copied, tmp_path / "report.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r"]


def test_command(folder, tmp_path, capsys):
    run(capsys, "report", str(folder), "-o", str(tmp_path / "report.html"))
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert "there is no such file" in run(capsys, "report", str(tmp_path), "-o", "x.html", code=2)


def test_the_papers_sets_lead_where_they_are_asked_for(folder, tmp_path, capsys):
    def tables(text: str) -> list[str]:
        return re.findall(r'id="table-(main|paper)"', text)

    plain = write_report(folder, tmp_path / "a.html").read_text()
    led = write_report(folder, tmp_path / "b.html", against="paper").read_text()
    assert tables(plain) == ["main", "paper"] and tables(led) == ["paper", "main"]
    assert "mean of 1 of 5 OOD sets" in re.search(r'<dl class="tiles">.*?</dl>', led, re.S).group(0)
    said = re.search(r'<p class="headline">.*?</p>', led, re.S).group(0)
    assert "tested on 1 OOD set (photos, which the paper has too)" in said
    run(capsys, "report", str(folder), "-o", str(tmp_path / "c.html"), "--against", "paper")
    assert (tmp_path / "c.html").read_text() == led
    assert "--against nobody: unknown; choose one of paper" in run(
        capsys, "report", str(folder), "-o", "x.html", "--against", "nobody", code=2
    )


def test_what_stands_beside_a_number_is_explained_there(folder, tmp_path):
    text = page_of(folder, tmp_path).text
    assert "over the random subsets that large sets are cut to, which is not the error of" in text
    assert "by cosine to its weights (CW)" in text and "by cosine to the class means (CM)" in text
    results = json.loads((folder / "result.json").read_text())["results"]
    for entry in results.values():
        entry["average"] |= {"auroc_interval": [0.5, 0.75], "fpr_interval": [0.125, 0.25]}
    page = page_of(copy(folder, tmp_path / "r", results=results), tmp_path)
    assert "its 95 % bootstrap interval" in page.text and "± is" not in page.text
    assert "50.00–75.00" in page.text and "12.50–25.00" in page.text  # noqa: RUF001 (dashes)


def test_an_image_that_several_methods_show_is_in_the_page_once(folder, tmp_path):
    copied = copy(folder, tmp_path / "r")
    entries = json.loads((copied / "gallery.json").read_text())
    (copied / "gallery.json").write_text(
        json.dumps(entries + [entry | {"method": "msp"} for entry in entries])
    )
    page = page_of(copied, tmp_path)
    images = page.data["images"]
    assert len(images) == len(entries) and all(uri.startswith("data:image/") for uri in images)
    later = [image for image in page.all("img") if "data-image" in image]
    assert [int(image["data-image"]) for image in later] == list(range(len(entries)))
    assert {image["src"] for image in later} == {"data:,"}


def test_a_benchmarks_gallery_has_the_images_of_every_method(tmp_path, capsys):
    arguments = ("bench", "digits", "--methods", "ctm,msp", "-o", str(tmp_path / "r"))
    for _ in range(2):  # the second takes the place of the first
        run(capsys, *arguments)
        entries = json.loads((tmp_path / "r" / "gallery.json").read_text())
        assert {entry["method"] for entry in entries} == {"ctm", "msp"}
        named = {entry["file"] for entry in entries}
        there = {f"gallery/{path.name}" for path in (tmp_path / "r" / "gallery").iterdir()}
        assert named == there and len(named) < len(entries)


def test_a_gallery_with_an_infinite_score_is_json_and_is_shown(folder, tmp_path):
    sets = builtin_features(load_suite("digits"))
    of_test = np.arange(len(sets.test), dtype=float)
    of_test[0] = -np.inf
    ood = {name: np.zeros(len(rows)) for name, rows in sets.ood.items()}
    copied = copy(folder, tmp_path / "r")
    assert write_gallery(copied, sets, 0.95, scores={"ctm": Scores(of_test, ood)})
    text = (copied / "gallery.json").read_text()
    assert '"score": "-inf"' in text and "Infinity" not in text
    assert "false alarm from the ID test set" in str(page_of(copied, tmp_path).all("img"))


def test_the_page_says_that_a_threshold_of_ties_keeps_more_than_promised():
    plain = np.arange(100.0)
    tied = np.minimum(plain, 1.0)  # of which 99 are the best score
    charts = [_page_data.calibration(_page_data.Scores(plain, {}, held)) for held in (plain, tied)]
    assert charts[0].ties is None and charts[1].ties.startswith("99 % of the 100")
