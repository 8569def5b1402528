"""Every block of code on the site runs as it stands, and prints what stands below it."""

from __future__ import annotations

import sys

import pages
import pytest
from helpers.pages import DOCS
from helpers.snippets import write_features, write_photos

# Languages that are shown and not run, and blocks that are run elsewhere, by page and first words.
SHOWN = {"text", "toml", "json", "js", "yaml", "html", ""}
ELSEWHERE = {
    ("deploy.md", "import mlflow"): "tests/oracles/test_mlflow.py",
    ("moving/alibi-detect.md", "from alibi_detect"): "tests/oracles/test_moving.py",
    ("moving/mapie.md", "from mapie"): "tests/oracles/test_moving.py",
    ("moving/pyod.md", "from pyod"): "tests/oracles/test_moving.py",
    ("moving/pytorch-ood.md", "import torch\nfrom pytorch_ood"): "tests/oracles/test_moving.py",
    ("paper.md", "typica bench cifar100-densenet"): "needs a folder of features",
    ("text.md", "typica bench clinc150"): "tests/bench/test_text.py",
    ("text.md", "rejected ="): "tests/bench/test_text.py",
    ("text.md", "from sklearn.model_selection"): "tests/bench/test_text.py",
    ("scale.md", "import dask"): "tests/engines/test_docs.py",
    ("scale.md", "import ray"): "tests/engines/test_docs.py",
    ("scale.md", "from pyspark"): "tests/engines/test_docs.py",
    ("deploy.md", "curl -s"): "tests/serve/test_docs.py",
    ("deploy.md", "import numpy as np\nimport tritonclient"): "tests/serve/test_docs.py",
}
SLOW = {"tutorials/photos.md"}  # needs scikit-image: tests/oracles/test_slow_pages.py
PAGES = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}


def blocks(name):
    """Return the blocks of a page that are run here."""
    found = pages.read(PAGES[name].read_text(encoding="utf-8"))
    apart = [start for page, start in ELSEWHERE if page == name]
    return [
        block
        for block in found
        if block.language in ("python", "sh") and not block.code.startswith(tuple(apart))
    ]


RUN = [name for name in PAGES if name not in SLOW and blocks(name)]


@pytest.mark.parametrize("name", RUN)
def test_the_code_of_a_page_runs(name, tmp_path, monkeypatch, quick_digits, loaded):
    monkeypatch.chdir(tmp_path)
    write_photos()
    write_features(loaded())
    run(name)


# Its texts are the documentation of Python's own modules, which other versions have otherwise.
FIGURES_OF_3_11 = {"tutorials/text.md"}


def run(name):
    reader = pages.Reader(name)
    compared = name not in FIGURES_OF_3_11 or sys.version_info[:2] == (3, 11)
    for block in blocks(name):
        printed = reader.run(block)
        if compared and block.output is not None:
            different = pages.differences(printed, block.output)
            assert not different, (
                f"docs/{name}, line {block.line}: {different}; "
                f"if that is right, run: python docs/run_pages.py docs/{name}"
            )


@pytest.mark.parametrize("name", PAGES)
def test_no_block_goes_untested(name):
    """A block is run here, or is of a language that is not run, or is tested where we say."""
    found = pages.read(PAGES[name].read_text(encoding="utf-8"))
    run_here = {block.line for block in blocks(name)}
    for block in found:
        elsewhere = [
            reason
            for (page, start), reason in ELSEWHERE.items()
            if page == name and block.code.startswith(start)
        ]
        known = block.language in SHOWN or block.line in run_here or elsewhere or name in SLOW
        assert known, f"docs/{name}, line {block.line}: `{block.language}` is not run; say where"


def test_what_is_tested_elsewhere_is_there():
    for name, start in ELSEWHERE:
        assert f"\n{start}" in PAGES[name].read_text(encoding="utf-8")


# What runs the pages


def test_a_block_keeps_what_was_defined_and_shows_its_last_value():
    reader = pages.Reader()
    page = "```python\na = 20\nprint('so')\n```\ntext\n```python\na + 1\n```\n"
    assert [reader.run(block) for block in pages.read(page)] == ["so\n", "21\n"]


def test_an_error_names_the_line_of_the_page():
    (block,) = pages.read("one\n\n```python\na = 1\nraise ValueError(a)\n```\n")
    with pytest.raises(ValueError) as error:
        pages.Reader("some.md").run(block)
    last = error.traceback[-1]
    assert (str(last.path), last.lineno) == ("some.md", 4)


def test_a_command_that_fails_is_an_error():
    (block,) = pages.read("```sh\npip install x\ntypica fit absent.npy\n```\n")
    with pytest.raises(RuntimeError, match=r"typica fit absent.npy: ended with exit code 2"):
        pages.Reader().run(block)


def test_outputs_are_compared_by_words_and_nearly_by_numbers():
    assert pages.differences("AUROC 99.07 of ctm", "AUROC 99.11 of ctm") == ""
    assert pages.differences("┃ 1.00 ┃\n├──────┤", "┃ 1.0 ┃\n├─────┤") == ""
    assert "'knn'" in pages.differences("AUROC of knn", "AUROC of ctm")
    assert "'-1'" in pages.differences("[ 1 -1]", "[ 1 1]")
    assert "3 words" in pages.differences("a b c", "a b")
    assert "80" in pages.differences("80.0 %", "60.0 %")


def test_outputs_are_written_where_they_stood():
    page = "a\n\n```python\n1 + 1\n```\n\n```text\n3\n```\n\nb\n\n```python\nx = 1\n```\n"
    blocks = pages.read(page)
    assert [block.output for block in blocks] == ["3\n", None]
    assert pages.rewritten(page, blocks, ["2\n", ""]) == page.replace("3", "2")
