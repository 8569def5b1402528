"""Verdicts: columns of arrays, and the same as dicts, tables and a page of a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.data import Data, make_data

from typica import CTM, Mahalanobis, Residual
from typica.detectors.base import top_two
from typica.verdicts import COLUMNS, Verdicts


@pytest.fixture(scope="module")
def judged() -> Verdicts:
    data = make_data()
    detector = CTM().fit(data.train, np.array(["<b>", "bee", "cat", "dog"])[data.labels])
    return detector.calibrate(data.held_out).judge(np.concatenate([data.test, data.ood]))


def test_every_form_tells_the_same(judged: Verdicts):
    told = judged.to_dict()
    assert list(told) == list(COLUMNS[1:])  # no files: these are rows
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["verdict"] == ["typical" if t else "atypical" for t in judged.typical]
    assert judged.n_atypical == told["verdict"].count("atypical") > 0
    frame = judged.to_pandas()
    assert frame.to_dict("list") == told
    assert judged.to_arrow().to_pydict() == told
    for i, one in enumerate(judged):
        assert one._asdict() == {name: column[i] for name, column in told.items()} | {"file": None}
    assert len(list(judged)) == len(judged)


def test_reasons_say_what_decided(judged: Verdicts):
    for one, threshold in zip(judged, judged.threshold, strict=True):
        relation = "at or above" if one.verdict == "typical" else "below"
        assert f"score {one.score:.4g} {relation} the threshold {threshold:.4g}" in one.why
        assert f"p-value {one.p_value:.4g}" in one.why and f"nearest class {one.nearest}" in one.why


def test_what_a_detector_cannot_tell_is_left_out(data: Data):
    no_classes = Residual().fit(data.train, data.labels).judge(data.test)
    assert list(no_classes.to_dict()) == ["verdict", "score", "why"]
    one_class = Mahalanobis().fit(data.train).judge(data.test[:3])
    told = one_class.to_dict()
    assert told["runner_up"] == told["margin"] == [None] * 3 and one_class[0].margin is None
    unjudged = CTM().partial_fit(data.train, data.labels).judge(data.test)
    assert unjudged.verdict is None and repr(unjudged) == "120 verdicts: no threshold"
    assert list(unjudged.to_dict()) == ["score", "nearest", "runner_up", "margin", "why"]


class Cells(HTMLParser):
    """The tags of a page, and the texts of its cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, text):
        self.texts.append(text)


def test_a_notebook_shows_a_table_without_markup_from_names(judged: Verdicts):
    page = Cells()
    page.feed(judged._repr_html_())
    assert page.tags.count("tr") == 1 + 20 and "b" not in page.tags[2:]
    assert "<b>" in page.texts and f"and {len(judged) - 20} more" in page.texts
    assert repr(judged) in page.texts


def test_some_of_the_verdicts(judged: Verdicts):
    rejected = judged[~judged.typical]
    assert len(rejected) == judged.n_atypical == rejected.n_atypical
    assert judged[[0, 3]].score.tolist() == judged.score[[0, 3]].tolist()
    assert judged[np.int64(2)] == judged[2] and judged[:3][1] == judged[1]
    assert judged != judged[:] and len({judged, judged[:]}) == 2


def test_two_classes_that_match_equally_badly_are_still_two():
    matches = top_two(np.full((3, 4), -np.inf))
    assert (matches.nearest != matches.runner_up).all()
