"""Verdicts: columns of arrays, and the same as dicts, tables and a page of a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import array_api_strict
import numpy as np
import pandas as pd
import pytest
import torch
from helpers.data import Data, make_data
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import typica
from typica import CTM, InputError, Mahalanobis, Residual
from typica.detectors.base import top_two
from typica.verdicts import COLUMNS, Verdicts


@pytest.fixture(scope="module")
def judged() -> Verdicts:
    data = make_data()
    detector = CTM().fit(data.train, np.array(["<b>", "bee", "cat", "dog"])[data.labels])
    return detector.calibrate(data.held_out).judge(np.concatenate([data.test, data.ood]))


def test_every_form_tells_the_same(judged: Verdicts):
    told = judged.to_dict()
    assert list(told) == list(COLUMNS[3:])  # no files or groups, and in the order of the input
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert told["verdict"] == ["typical" if t else "atypical" for t in judged.typical]
    assert judged.n_atypical == told["verdict"].count("atypical") > 0
    frame = judged.to_pandas()
    assert frame.to_dict("list") == told
    assert judged.to_arrow().to_pydict() == told
    for i, one in enumerate(judged):
        assert one._asdict() == {name: column[i] for name, column in told.items()} | {
            "file": None,
            "row": None,
            "group": None,
        }
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


def test_the_strangest_come_first_and_keep_their_numbers(judged: Verdicts):
    ordered = judged.sort()
    pairs = list(zip(ordered.p_value, ordered.score, strict=True))
    assert pairs == sorted(zip(judged.p_value, judged.score, strict=True))
    assert sorted(ordered.row.tolist()) == list(range(len(judged)))
    for one in ordered:
        assert one == judged[one.row]._replace(row=one.row)
    assert ordered.sort("input").score.tolist() == judged.score.tolist()
    assert next(iter(ordered.to_dict())) == "row" and judged.row is None


@pytest.mark.parametrize("by", ["score", "p_value", "margin", "nearest"])
def test_any_column_can_be_sorted_by(judged: Verdicts, by):
    column = getattr(judged.sort(by), by).tolist()
    assert column == sorted(column) == sorted(getattr(judged, by).tolist())


def test_without_p_values_the_score_decides(data: Data):
    verdicts = CTM().fit(data.train, data.labels).judge(data.test)
    assert verdicts.sort().score.tolist() == sorted(verdicts.score.tolist())
    with pytest.raises(InputError, match=r"^Verdicts.sort: there is no p-value to sort by"):
        verdicts.sort("p_value")
    with pytest.raises(InputError, match=r"by='size' is unknown; choose one of p_value, score"):
        verdicts.sort("size")


def test_classes_of_several_types_and_margins_that_are_not_there_are_sorted_too():
    mixed = np.array(["bee", 3, "ant"], dtype=object)
    verdicts = Verdicts(np.array([0.1, 0.2, 0.3]), nearest=mixed)
    assert verdicts.sort("nearest").row.tolist() == [1, 2, 0]
    similar = np.array([0.5, 0.6, 0.7])
    others = np.array([0.1, np.nan, 0.6])
    verdicts = Verdicts(similar, similarity=similar, runner_up_similarity=others)
    assert verdicts.sort("margin").row.tolist() == [2, 0, 1]  # what has none comes last


def test_only_one_kind(judged: Verdicts):
    strange, known = judged.only("atypical"), judged.only("typical")
    assert len(strange) == judged.n_atypical == strange.n_atypical and known.n_atypical == 0
    assert strange.row.tolist() == np.flatnonzero(~judged.typical).tolist()
    both = judged.sort().only("atypical")
    assert both.row.tolist() == judged.only("atypical").sort().row.tolist()
    assert len(strange.only("typical")) == 0 == len(strange.only("typical").sort())
    with pytest.raises(InputError, match=r"verdict='OOD'; choose one of typical, atypical"):
        judged.only("OOD")
    with pytest.raises(InputError, match="there is no threshold"):
        Verdicts(np.array([0.5])).only("typical")


def test_two_classes_that_match_equally_badly_are_still_two():
    matches = top_two(np.full((3, 4), -np.inf))
    assert (matches.nearest != matches.runner_up).all()


@pytest.mark.parametrize("make", [np.asarray, torch.asarray, array_api_strict.asarray])
def test_the_two_best_are_those_of_a_loop_in_every_backend(make):
    rng = np.random.default_rng(0)
    S = rng.integers(0, 4, size=(50, 5)).astype(np.float64)  # with ties
    found = [np.asarray(column).tolist() for column in top_two(make(S))]
    for row, nearest, best, runner_up, second in zip(S.tolist(), *found, strict=True):
        order = sorted(range(5), key=lambda k: (-row[k], k))
        assert [nearest, runner_up] == order[:2]
        assert [best, second] == [row[k] for k in order[:2]]


def test_the_index_of_a_data_frame_stays_with_its_rows(data: Data):
    index = [f"photo-{i}" for i in range(len(data.test))]
    frame = pd.DataFrame(data.test, index=index)
    detector = CTM().fit(data.train, data.labels).calibrate(data.held_out)
    pipeline = make_pipeline(StandardScaler(), CTM()).fit(data.train, data.labels)
    for verdicts in (detector.judge(frame), typica.judge(pipeline, frame)):
        assert verdicts.to_pandas().index.tolist() == index
        turned = verdicts.sort("score")
        assert turned.to_pandas().index.tolist() == [index[row] for row in turned.row]
    assert detector.judge(data.test).to_pandas().index.tolist() == list(range(len(data.test)))


def test_printed_verdicts_are_rows():
    verdicts = Verdicts(
        np.linspace(0, 1, 25),
        typical=np.arange(25) > 0,
        p_value=np.linspace(0.04, 1, 25),
        nearest=np.array(["cat\x1b[2J", "two\nlines", None] + ["dog"] * 22, dtype=object),
    )
    lines = str(verdicts).splitlines()
    assert lines[0] == repr(verdicts) == "25 verdicts: 24 typical, 1 atypical"
    assert lines[1].split() == ["row", "verdict", "score", "p-value", "nearest"]
    assert lines[2].split() == ["0", "atypical", "0", "0.04", r"cat\x1b[2J"]
    assert lines[3].split() == ["1", "typical", "0.04167", "0.08", r"two\nlines"]
    assert len(lines) == 23 and lines[-1] == "and 5 more"
    assert str(verdicts[:0]) == "0 verdicts: 0 typical, 0 atypical"
