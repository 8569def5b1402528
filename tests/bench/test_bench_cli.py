"""`typica bench` and `typica suite` as a person types them.

The whole path on digits, and the real CIFAR-10 features.
"""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.data import Data
from helpers.real import REAL
from helpers.shell import run
from sklearn.metrics import roc_auc_score

from typica.bench import (
    EXPERIMENTS,
    Record,
    Table,
    builtin_features,
    digits,
    load_suite,
    named_methods,
    read_features_folder,
    read_result,
    read_result_scores,
    run_experiment,
    tables_of,
    to_csv,
    to_latex,
    to_markdown,
    write_result,
)
from typica.bench._record import Measure
from typica.bench._table import Cell, Column, stacked
from typica.bench._table_formats import bench_cell_style, text_of, to_html
from typica.errors import FormatError, InputError

OOD = ["held-out-digits", "rotated", "inverted", "photos", "noise"]


@pytest.fixture
def features(data: Data, tmp_path: Path) -> Path:
    """Features of a toy network under the names of the paper's sets.

    One set is larger than the test set.
    """
    folder = tmp_path / "features"
    folder.mkdir()
    arrays = {
        "train.features": data.train,
        "train.labels": data.labels,
        "test.features": data.test[:50],
        "test.labels": np.arange(50) % 4,
        "head.weight": data.head.weight,
        "head.bias": data.head.bias,
        "ood.SVHN.features": 0.4 * data.ood
        + 0.6 * data.held_out,  # half way, so that no method is perfect
        "ood.dtd.features": data.ood[:40] + 0.3,
        "ood.cifar100.features": data.test[50:90] + 1,
    }
    for name, array in arrays.items():
        np.save(
            folder / f"{name}.npy", array.astype(np.float32) if array.dtype.kind == "f" else array
        )
    return folder


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_on_digits(capsys, experiment, tmp_path):
    files = {name: tmp_path / f"table.{name}" for name in ("json", "csv", "markdown", "latex")}
    options = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    out = run(
        capsys,
        "bench",
        "digits",
        "--experiment",
        experiment,
        *options,
        "-o",
        str(tmp_path / "result"),
    )
    assert max(map(len, out.splitlines())) <= 80
    assert "Handwritten digits" in out or experiment == "analysis"
    document = json.loads(files["json"].read_text())
    assert document["suite"] == "digits" and document["experiment"] == experiment
    assert document["protocol"] == {
        "tpr": 0.95,
        "convention": "first",
        "subsets": 5,
        "seed": 0,
        "full": False,
    }
    assert document["accuracy"].keys() == {"standard", "cw", "cm"}
    assert document["near"] == ["held-out-digits", "rotated"] and document["n"]["noise"] == 500
    for record in document["results"].values():
        assert list(record["ood"]) == OOD
        for metric in ("fpr", "auroc", "aupr_in", "aupr_out"):
            mean = sum(numbers[metric] for numbers in record["ood"].values()) / 5
            assert record["average"][metric] == pytest.approx(mean, abs=1e-12)
            assert f"{metric}_std" in record["average"] and all(
                f"{metric}_std" in x for x in record["ood"].values()
            )
    assert read_result(tmp_path / "result", experiment).to_dict() == document
    assert r"\toprule" in files["latex"].read_text() and "|---" in files["markdown"].read_text()
    again = run(capsys, "bench", "digits", "--experiment", experiment, "--json", "-")
    assert json.loads(again) == document


def test_numbers_of_the_main_experiment_are_right(capsys):
    document = json.loads(
        run(capsys, "bench", "digits", "--full", "--methods", "ctm,knn", "--json", "-")
    )
    suite = digits.load()
    means = np.stack([suite.train[suite.train_labels == c].mean(axis=0) for c in suite.classes])
    means /= np.linalg.norm(means, axis=1, keepdims=True)

    def score(z):
        return (z / np.linalg.norm(z, axis=1, keepdims=True) @ means.T).max(axis=1)

    for name, z in suite.ood.items():
        target = np.r_[np.ones(len(suite.test)), np.zeros(len(z))]
        expected = roc_auc_score(target, np.r_[score(suite.test), score(z)])
        assert document["results"]["ctm"]["ood"][name]["auroc"] == pytest.approx(expected, abs=1e-4)
        assert document["results"]["ctm"]["ood"][name]["n"] == len(z)
    assert document["protocol"]["full"] is True
    params = document["results"]["knn"]["params"]
    assert params["k"] in (5, 10, 20, 50) and set(params["k_grid"]) == {"5", "10", "20", "50"}
    logits = suite.test @ suite.head_weight.T + suite.head_bias
    assert document["accuracy"]["standard"] == np.mean(logits.argmax(1) == suite.test_labels)
    assert document["accuracy"]["cm"] == np.mean(
        (suite.test / np.linalg.norm(suite.test, axis=1, keepdims=True) @ means.T).argmax(1)
        == suite.test_labels
    )
    for kind, names in (("near", OOD[:2]), ("far", OOD[2:])):
        aurocs = [document["results"]["ctm"]["ood"][name]["auroc"] for name in names]
        assert document["results"]["ctm"][kind]["auroc"] == pytest.approx(sum(aurocs) / len(aurocs))


def test_features_of_ones_own_beside_the_paper(capsys, features):
    arguments = (
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--against",
        "paper",
        "--methods",
        "paper",
    )
    out = run(capsys, *arguments)
    assert max(map(len, out.splitlines())) <= 80
    assert (
        "mean of 2 of 3 OOD sets (SVHN, dtd)" in out
        and "odin: needs images" in out
        and "isun: absent" in out
    )
    assert "Not in the means, as the paper has no such set: cifar100." in out
    assert "lsun-c, lsun-r, isun, places365: absent: there is no ood.NAME.features.npy" in " ".join(
        out.split()
    )
    assert (
        "FPR: share of OOD inputs accepted when 95 % of ID are kept (convention 'first'"
        in " ".join(out.split())
    )
    line = next(line.split() for line in out.splitlines() if line.startswith("ctm"))
    document = json.loads(run(capsys, *arguments, "--json", "-"))
    ours = document["results"]["ctm"]["ood"]
    auroc = 100 * (ours["SVHN"]["auroc"] + ours["dtd"]["auroc"]) / 2
    assert line[4:7] == [f"{auroc:.2f}", "97.89", f"{auroc - 97.89:+.2f}"]
    assert document["published"]["ctm"]["SVHN"] == {"fpr": 0.0514, "auroc": 0.9908}
    assert document["published"]["ctm"]["average"] == {"fpr": 0.1823, "auroc": 0.964}
    assert (
        ours["SVHN"]["subsets"] == 5 and ours["SVHN"]["n"] == 50 and ours["dtd"]["auroc_std"] == 0
    )
    assert document["near"] == ["cifar100"]
    assert document["results"]["ctm"]["aurc"] >= 0
    assert document["skipped"]["odin"].startswith("needs images") and "isun" in document["absent"]


def test_detail_has_a_section_a_set_near_and_far_apart(capsys, features, tmp_path):
    path = tmp_path / "detail.csv"
    arguments = (
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--methods",
        "ctm,odin,msp",
    )
    out = run(
        capsys, *arguments, "--experiment", "detail", "--against", "paper", "--csv", str(path)
    )
    headings = ["SVHN (far, 120 inputs)", "dtd (far, 40 inputs)", "cifar100 (near, 40 inputs)"]
    places = [
        out.index(text)
        for text in [*headings, "mean of 2 far OOD sets (SVHN, dtd)", "not measured"]
    ]
    assert places == sorted(places) and out.count("odin: needs images") >= 3
    assert "near OOD sets" not in out  # for there is but one
    sections = out.partition(headings[2])[2].partition("mean of 2 far")
    assert "FPR95" in sections[0] and "paper" not in sections[0] and "diff" not in sections[0]
    assert "FPR95" not in sections[2].partition("not measured")[2].partition("In percent")[0]
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["section"] for row in rows[:4]] == [headings[0]] * 3 + [headings[1]]
    document = json.loads(run(capsys, *arguments, "--json", "-"))
    numbers = document["results"]["ctm"]["ood"]["SVHN"]
    assert float(rows[0]["AUROC"]) == pytest.approx(100 * numbers["auroc"], abs=1e-9)
    assert float(rows[0]["AUROC std"]) == pytest.approx(100 * numbers["auroc_std"], abs=1e-9)
    # Two columns are headed paper, and two diff; DictReader keeps the last, AUROC's.
    assert float(rows[0]["paper"]) == 99.08
    assert float(rows[0]["diff"]) == pytest.approx(100 * numbers["auroc"] - 99.08, abs=1e-9)


def test_an_average_says_which_sets_it_covers_and_the_papers_covers_the_same(capsys, features):
    common = (
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--methods",
        "ctm,max_logit",
    )
    alone, beside = (run(capsys, *common, *more) for more in ((), ("--against", "paper")))
    assert "mean of 3 OOD sets (SVHN, dtd, cifar100)" in alone and "Not in the means" not in alone
    document = json.loads(run(capsys, *common, "--json", "-"))
    ours = {name: numbers["auroc"] for name, numbers in document["results"]["ctm"]["ood"].items()}
    shown = {
        text: next(line.split() for line in out.splitlines() if line.startswith("ctm"))
        for text, out in (("alone", alone), ("beside", beside))
    }
    assert f"{100 * sum(ours.values()) / 3:.2f}" in shown["alone"]
    assert (
        f"{100 * (ours['SVHN'] + ours['dtd']) / 2:.2f}" in shown["beside"]
        and "97.89" in shown["beside"]
    )
    # Of MaxLogit the paper printed its average over six sets alone, which is no average over these.
    assert "94.47" not in beside


def test_ablation_and_layers_cover_the_papers_sets_and_say_what_it_covers(capsys, features):
    arguments = (
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--against",
        "paper",
        "--experiment",
    )
    for experiment, row in (("ablation", "cm"), ("layers", "penultimate")):
        out = " ".join(run(capsys, *arguments, experiment).split())
        document = json.loads(run(capsys, *arguments, experiment, "--json", "-"))
        assert document["published"][row]["common"] == {"sets": ["SVHN", "dtd"], "of": 6}
        assert (
            "mean of 2 of 3 OOD sets (SVHN, dtd)" in out
            and "The paper's means are those of its 6 OOD sets." in out
        )
        numbers = document["results"][row]["ood"]
        assert f"{50 * (numbers['SVHN']['auroc'] + numbers['dtd']['auroc']):.2f}" in out
        alone = " ".join(run(capsys, *arguments[:4], "--experiment", experiment).split())
        assert (
            "mean of 3 OOD sets" in alone
            and f"{100 * document['results'][row]['average']['auroc']:.2f}" in alone
        )


def test_an_average_over_all_of_the_papers_sets_needs_no_caveat(capsys, features):
    for name in ("lsun-c", "lsun-r", "isun", "places365"):
        np.save(features / f"ood.{name}.features.npy", np.load(features / "ood.dtd.features.npy"))
    arguments = ("bench", "cifar10-densenet", "--features", str(features), "--against", "paper")
    out = run(capsys, *arguments, "--experiment", "layers")
    assert "The paper's means" not in out and "cifar100." in out
    assert "94.47" in run(
        capsys, *arguments, "--methods", "max_logit"
    )  # now it is an average over the same
    (features / "ood.cifar100.features.npy").unlink()
    assert "mean of 6 OOD sets" in " ".join(run(capsys, *arguments, "--methods", "ctm").split())


def test_sets_that_the_paper_does_not_have_at_all(capsys, features):
    for name in ("SVHN", "dtd"):
        (features / f"ood.{name}.features.npy").unlink()
    arguments = (
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--methods",
        "ctm",
        "--against",
        "paper",
    )
    out = run(capsys, *arguments)
    assert (
        "The paper has none of these OOD sets to compare with." in out
        and "mean of 1 OOD set (cifar100)" in out
    )
    assert "diff" not in out
    out = run(capsys, *arguments, "--experiment", "detail")
    assert "cifar100 (near" in out and "diff" not in out


def test_detail_with_a_near_set_that_the_paper_has(capsys, features, tmp_path):
    """Then neither the near nor the far sets are those in common.

    The comparison has a section of its own.
    """
    document = json.loads(
        run(
            capsys,
            "bench",
            "cifar10-densenet",
            "--features",
            str(features),
            "--methods",
            "ctm",
            "--json",
            "-",
        )
    )
    document |= {"experiment": "detail", "near": ["cifar100", "dtd"]}
    (table,) = tables_of(Record.from_dict(document), against="paper")
    sections = dict(table.sectioned)
    assert sections["mean of 2 near OOD sets (dtd, cifar100)"][0][5].value is None
    beside = sections["mean of 2 of 3 OOD sets (SVHN, dtd), which the paper has too"]
    assert beside[0][5].value == pytest.approx(0.9789)


def test_without_images_or_layers_every_row_stays(capsys, features):
    out = run(
        capsys,
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--experiment",
        "layers",
        "--against",
        "paper",
    )
    assert "conv1: absent" in out and "53.59" not in out and "96.40" in out
    out = run(
        capsys,
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--experiment",
        "ablation",
        "--against",
        "paper",
    )
    assert "Standard (max logit)" in out and "94.52" in out
    for path in features.glob("head.*"):
        path.unlink()
    out = run(
        capsys, "bench", "cifar10-densenet", "--features", str(features), "--experiment", "ablation"
    )
    assert "standard: needs a head" in out and "CM (CTM)" in out
    out = run(
        capsys,
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--experiment",
        "misclassification",
        "--methods",
        "ctm",
    )
    assert "ctm" in out
    out = run(
        capsys,
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--experiment",
        "analysis",
        code=2,
    )
    assert "analysis: needs a head" in out


def test_a_failing_method_keeps_its_row(capsys, features):
    out = run(
        capsys, "bench", "imagenet-resnet50", "--features", str(features), "--methods", "knn,ctm"
    )
    assert (
        "knn: failed" in out
        and "k=1000 exceeds the 240 training rows; pass k<=240." in " ".join(out.split())
    )
    out = run(
        capsys,
        "bench",
        "imagenet-resnet50",
        "--features",
        str(features),
        "--methods",
        "knn",
        code=2,
    )
    assert "bench: nothing could be measured; k=1000 exceeds" in out


def test_the_seed_is_that_of_the_command(capsys, features):
    arguments = (
        "bench",
        "cifar10-densenet",
        "--features",
        str(features),
        "--methods",
        "ctm",
        "--json",
        "-",
    )
    first, again, other = (
        json.loads(run(capsys, *arguments, "--seed", seed)) for seed in ("3", "3", "4")
    )
    assert first == again and first["protocol"]["seed"] == 3
    assert first["results"]["ctm"]["ood"]["SVHN"] != other["results"]["ctm"]["ood"]["SVHN"]
    assert first["results"]["ctm"]["ood"]["dtd"] == other["results"]["ctm"]["ood"]["dtd"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["digits", "--experiment", "mian"],
            "--experiment mian: unknown; choose one of main, detail",
        ),
        (["digits", "--against", "me"], "--against me: unknown"),
        (["digits", "--backend", "fast"], "--backend fast: unknown; choose one of auto, torch"),
        (["digits", "--methods", "ctn"], "--methods: 'ctn' unknown; choose from"),
        (
            ["digits", "--features", "a", "--data", "b"],
            "--features and --data: pass one of the two",
        ),
        (["digits", "--data", "b"], "digits brings its own data; leave out --features and --data"),
        (["digist"], "suite 'digist': neither a file nor a suite of Typica"),
        (["cifar10-wrn"], "needs data; pass --data DIR"),
        (["cifar10-wrn", "--features", "nowhere"], "nowhere: there is no such folder"),
    ],
)
def test_bad_commands(capsys, arguments, message):
    assert message in run(capsys, "bench", *arguments, code=2)


@pytest.mark.parametrize("form", ["csv", "markdown", "latex"])
def test_a_table_goes_to_standard_output(capsys, tmp_path, form):
    arguments = ("bench", "digits", "--methods", "ctm", f"--{form}")
    run(capsys, *arguments, str(tmp_path / "table"))
    assert run(capsys, *arguments, "-") == (tmp_path / "table").read_text()
    error = run(capsys, *arguments, "-", "--json", "-", code=2)
    assert f"error: --json and --{form}: each would be printed; pass - to one of them." in error


def test_the_folder_of_a_report_is_checked_first(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("digits-result").touch()
    assert "digits-result: is a file" in run(
        capsys, "bench", "digits", "--methods", "ctm", "--report", code=2
    )


def test_nothing_printed_to_compare_with(capsys):
    out = run(capsys, "bench", "digits", "--methods", "ctm", "--against", "paper")
    assert "paper" not in out  # no empty columns


def test_suite_commands(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = run(capsys, "suite", "list")
    assert (
        "cifar10-densenet" in out
        and "imagenet-lite0" in out
        and max(map(len, out.splitlines())) <= 80
    )
    assert (
        json.loads(run(capsys, "suite", "list", "--json", "-"))["cifar10-wrn"]["model"]
        == "wideresnet-40-2"
    )
    assert "wrote my.toml" in run(capsys, "suite", "init", "my.toml")
    assert load_suite("my.toml").name == "my"
    assert "my.toml: exists already; pass another name, or --force" in run(
        capsys, "suite", "init", "my.toml", code=2
    )
    Path("my.toml").write_text(Path("my.toml").read_text().replace("tpr =", "tqr ="))
    assert "protocol.tqr: unknown key; did you mean 'tpr'?" in run(
        capsys, "suite", "show", "my.toml", code=2
    )
    assert "protocol.tqr" in run(capsys, "bench", "my.toml", code=2)
    run(capsys, "suite", "init", "my.toml", "--force")
    assert 'model = "resnet-50"' in run(capsys, "suite", "show", "my.toml")
    assert json.loads(run(capsys, "suite", "show", "digits", "--json", "-"))["builtin"] == "digits"
    assert "id.train.path = 'train' is not in" in run(capsys, "bench", "my.toml", code=2)


def outcome(experiment="main", methods="ctm,msp"):
    suite = load_suite("digits")
    return run_experiment(experiment, suite, builtin_features(suite), named_methods(suite, methods))


def test_a_result_is_written_and_read_and_is_the_same_to_the_bit(tmp_path):
    for folder in ("a", "b"):
        write_result(tmp_path / folder, outcome())
    for file in ("result.json", "scores/ctm.npz", "scores/msp.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    scores = read_result_scores(tmp_path / "a")
    assert set(scores) == {"ctm", "msp"} and list(scores["ctm"].ood) == OOD
    assert scores["ctm"].ood["noise"].shape == (500,)
    assert scores["ctm"].test.shape == scores["ctm"].calibration.shape == (316,)
    with np.load(tmp_path / "a" / "scores" / "ctm.npz") as file:
        assert set(file.files) == {"test", "calibration", *(f"ood.{name}" for name in OOD)}
    assert read_result(tmp_path / "a").rows.keys() == {"ctm", "msp"}
    write_result(tmp_path / "a", outcome("analysis"))
    write_result(tmp_path / "a", outcome(methods="msp"))
    assert set(read_result_scores(tmp_path / "a")) == {
        "msp"
    }  # no scores of a method that is not in the result
    curves = read_result(tmp_path / "a", "analysis").analysis.curves
    assert curves.keys() == {"variation", "uncertainty"}


def test_folders_that_are_no_result(tmp_path):
    with pytest.raises(
        InputError,
        match=r"result\.json: there is no such file; make it with `typica bench SUITE -o FOLDER`",
    ):
        read_result(tmp_path)
    with pytest.raises(InputError, match=r"layers\.json: .* --experiment layers"):
        read_result(tmp_path, "layers")
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(FormatError, match=r"result\.json: not a whole JSON file"):
        read_result(tmp_path)
    (tmp_path / "result.json").write_text("[]")
    with pytest.raises(FormatError, match="not a benchmark's result"):
        read_result(tmp_path)
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "ctm.npz").write_bytes(b"PK")
    with pytest.raises(FormatError, match=r"ctm\.npz: not a whole \.npz file"):
        read_result_scores(tmp_path)


def two_sections() -> Table:
    """A table with every kind of column, whose second section holds a row that is empty."""
    first = Table("method", ["max_logit", "msp"])
    first.add("FPR95", [Measure(0.05139, 0.001), 0.3], better="lower")
    first.add("diff", [-0.0123, None], "difference")
    first.add("AURC ‰", [0.00532, None], "milli", "lower")
    first.add("x", [1.5, None], "number")
    second = Table("method", [])
    for heading in ("FPR95", "diff", "AURC ‰", "x"):
        second.add(heading, [])
    second.add_empty_rows(["odin: needs images"])
    table = stacked({"first_section": first, "second": second}, "A & B_c")
    table.notes = ["100 % of it"]
    return table


TABLE = two_sections()


def test_csv_keeps_every_digit():
    rows = list(csv.reader(io.StringIO(to_csv([TABLE]))))
    assert rows[0] == ["section", "method", "FPR95", "FPR95 std", "diff", "AURC ‰", "x"]
    assert rows[1] == ["first_section", "max_logit", "5.139", "0.1", "-1.23", "5.32", "1.5"]
    assert rows[2] == ["first_section", "msp", "30.0", "0.0", "", "", ""]
    assert rows[3] == ["second", "odin: needs images", "", "", "", "", ""]
    assert to_csv([TABLE, TABLE]).count("\n\n") == 1


def test_markdown_and_latex():
    markdown = to_markdown([TABLE])
    assert "| max_logit | **5.14 ±0.10** | -1.23 | 5.32 | 1.5 |" in markdown
    assert "| *first_section* | | | | |" in markdown and "\n100 % of it\n" in markdown
    lines = markdown.splitlines()
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    latex = to_latex([TABLE])
    assert r"\caption{A \& B\_c}" in latex and r"\begin{tabular}{lrrrr}" in latex
    assert r"max\_logit & \textbf{5.14 $\pm$0.10} & -1.23 & 5.32 & 1.5 \\" in latex
    assert r"\multicolumn{5}{l}{\emph{first\_section}} \\" in latex and r"100 \% of it" in latex
    assert r"FPR95 $\downarrow$" in latex and latex.count(r"\midrule") == 2


def test_a_bar_in_a_name_makes_no_cell_of_markdown():
    parts = {name: Table("m|n", ["a|b"]).add("x", [0.5]) for name in ("one|two", "three")}
    lines = to_markdown([stacked(parts)]).splitlines()
    assert r"| a\|b | 50.00 |" in lines and r"| *one\|two* | |" in lines
    cells = [line.replace(r"\|", "").count("|") for line in lines if line.startswith("|")]
    assert cells == [3] * len(cells)


def test_html_has_the_sections_of_the_others():
    sections = re.findall(r"<tbody>(.*?)</tbody>", to_html(TABLE, "two"), flags=re.DOTALL)
    assert [re.search(r'colspan="5"><span>(.*?)</span>', each)[1] for each in sections] == [
        "first_section",
        "second",
    ]
    assert [re.findall(r'<th scope="row"[^>]*>(.*?)</th>', each) for each in sections] == [
        ["max_logit", "msp"],
        ["odin: needs images"],
    ]
    plain = to_html(Table("method", ["a"]), "one")
    assert plain.count("<tbody>") == 1 and "colspan" not in plain


@pytest.mark.parametrize(
    ("size", "style"),
    [(0.0, "green"), (-0.005, "green"), (0.0051, "yellow"), (-0.015, "yellow"), (0.0151, "red")],
)
def test_differences_are_coloured_by_size(size, style):
    assert bench_cell_style(Cell(size), Column("diff", (), "difference")) == style
    assert bench_cell_style(Cell(size, best=True), Column("AUROC", ())) == "bold"
    assert text_of(Cell(None), Column("AUROC", ())) == ""


def test_the_best_of_a_column_is_marked():
    (table,) = tables_of(outcome(methods="ctm,msp,knn").record)
    for column in table.columns[1:]:
        values = [cell.value for cell in column.cells]
        best = min(values) if column.label.endswith("↓") else max(values)
        assert [cell.best for cell in column.cells] == [value == best for value in values]


def test_where_all_are_equal_none_is_best():
    table = Table("method", ["a", "b"]).add("AUROC", [0.5, 0.5], better="higher")
    assert not any(cell.best for cell in table.columns[1].cells)


@pytest.fixture(scope="module")
def cifar(real):
    suite = load_suite("cifar10-densenet")
    return suite, read_features_folder(suite, REAL / "cifar10-densenet")


@pytest.fixture(scope="module")
def measured(cifar):
    suite, sets = cifar
    return run_experiment("main", suite, sets, named_methods(suite, "ctm,knn,energy,msp,odin"))


@pytest.mark.real
def test_the_papers_accuracies(measured):
    printed = {"standard": 0.9452, "cw": 0.9455, "cm": 0.9440}
    for name, accuracy in printed.items():
        assert measured.record.accuracy[name] == pytest.approx(accuracy, abs=0.001)


@pytest.mark.real
@pytest.mark.parametrize("method", ["ctm", "knn", "energy", "msp"])
def test_the_papers_aurocs(measured, method):
    document = measured.record.to_dict()
    ours, printed = document["results"][method]["ood"], document["published"][method]
    assert ours["svhn"]["auroc"] == pytest.approx(printed["svhn"]["auroc"], abs=0.005)
    assert ours["textures"]["auroc"] == pytest.approx(printed["textures"]["auroc"], abs=0.015)


@pytest.mark.real
def test_twice_the_same_to_the_bit(cifar, measured, tmp_path):
    suite, sets = cifar
    again = run_experiment("main", suite, sets, named_methods(suite, "ctm,knn,energy,msp,odin"))
    assert json.dumps(again.record.to_dict()) == json.dumps(measured.record.to_dict())
    for method, scores in measured.scores.items():
        assert scores.test.tobytes() == again.scores[method].test.tobytes()
        for name, array in scores.ood.items():
            assert array.tobytes() == again.scores[method].ood[name].tobytes(), (method, name)


@pytest.mark.real
def test_the_analysis_of_the_papers_network(cifar):
    suite, sets = cifar
    document = run_experiment("analysis", suite, sets, {}).record.to_dict()
    assert document["one_hot"]["probability"]["min"] > 0.99999  # one-hot indeed
    kernel = document["kernel"]
    assert kernel["exact"]["max"] <= 1 < kernel["printed"]["max"]
    assert kernel["exact"]["correlation"]["all"]["spearman"] > 0.9
    assert kernel["exact"]["auroc"]["svhn"] > kernel["printed"]["auroc"]["svhn"] + 0.2
    assert document["motivation"]["caught_by"]["svhn"]["by"] == "cosine"
    assert document["motivation"]["caught_by"]["cifar100"]["by"] == "logit"
    moves = {quantity: curve["y"] for quantity, curve in document["curves"].items()}
    for i, size in enumerate(document["steps"]["sizes"]):
        assert moves["uncertainty"]["test"][i] > 1.5 * moves["uncertainty"]["svhn"][i]
        if size <= 0.5:  # while certain predictions stay certain
            assert moves["variation"]["test"][i] < moves["variation"]["svhn"][i]


def test_files_beside_the_scores_of_a_result_stay(tmp_path):
    write_result(tmp_path, outcome())
    mine = tmp_path / "scores" / "mine.npz"
    mine.write_bytes(b"not scores at all")
    write_result(tmp_path, outcome(methods="msp"))
    assert mine.read_bytes() == b"not scores at all"
    assert {file.name for file in (tmp_path / "scores").iterdir()} == {"mine.npz", "msp.npz"}
    assert set(read_result_scores(tmp_path)) == {"msp"}
    (tmp_path / "result.json").write_text("{")  # which names no method: then nothing goes
    write_result(tmp_path, outcome(methods="ctm"))
    assert {file.name for file in (tmp_path / "scores").iterdir()} == {
        "ctm.npz",
        "mine.npz",
        "msp.npz",
    }
    assert set(read_result_scores(tmp_path)) == {"ctm"}
