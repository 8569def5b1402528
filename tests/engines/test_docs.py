"""The blocks of the page on tables that need an engine run as they stand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from helpers.snippets import write_features

from typica.bench import digits

DOCS = Path(__file__).parents[2] / "docs"
sys.path.append(str(DOCS / "tools"))

import pages  # noqa: E402

BLOCKS = pages.read((DOCS / "scale.md").read_text(encoding="utf-8"))
PLACE = re.compile(r'"(embeddings|held|fresh|by-ray|by-spark)/?"')
STARTS = {"dask": "import dask", "ray": "import ray", "spark": "from pyspark"}


@pytest.mark.parametrize("engine", STARTS)
def test_the_page_runs_on_an_engine(engine, request, tmp_path, monkeypatch):
    if engine != "dask":  # which starts its own
        request.getfixturevalue(engine)
    monkeypatch.chdir(tmp_path)
    write_features(digits.load())
    reader = pages.Reader("scale.md")
    ours = [block for block in BLOCKS if block.code.startswith(STARTS[engine])]
    assert len(ours) == 1
    ours[0].language = "python"
    # A reader starts the cluster in the folder of the files; this one was started elsewhere.
    ours[0].code = PLACE.sub(rf'"{tmp_path}/\1"', ours[0].code)
    before = [block for block in BLOCKS if block.language == "python"][:2]
    for block in (*before, *ours):
        reader.run(block)
    judged = pq.read_table(tmp_path / f"by-{engine}").to_pandas()
    expected = reader.names["detector"].judge(np.load("new.npy"))
    assert len(judged) == len(expected)
    assert (judged["verdict"] == "atypical").sum() == expected.n_atypical
