"""`judge` makes scores and matches of the same products: what is dear is done once per block."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.data import Data

import typica
from typica import detectors
from typica.detectors import _quorum_witnesses, openmax
from typica.detectors._bases.headed import ClassesOfHead
from typica.head import Head

DEAR = {  # by detector: where its dearest step lies
    "GMM": (detectors.Mahalanobis, "_whitened"),
    "Mahalanobis": (detectors.Mahalanobis, "_whitened"),
    "MDSpp": (detectors.Mahalanobis, "_whitened"),
    "OpenMax": (openmax, "revise"),
    "Projection": (detectors.Projection, "_similarities"),
    "Quorum": (_quorum_witnesses, "whitened"),
    "RelativeMahalanobis": (detectors.Mahalanobis, "_whitened"),
    "RMDSpp": (detectors.Mahalanobis, "_whitened"),
    "SHE": (Head, "logits"),
}


@pytest.mark.parametrize("name", DEAR)
def test_judge_does_what_is_dear_once(name, data: Data, monkeypatch):
    made = getattr(detectors, name)()
    if "head" in made.get_params():
        made.set_params(head=data.head)
    made.fit(data.train, data.labels)
    scores = made.score_samples(data.test)
    matches = made.match(data.test)
    calls = []
    home, step = DEAR[name]
    dear = getattr(home, step)

    def counted(*args, **options):
        calls.append(step)
        return dear(*args, **options)

    monkeypatch.setattr(home, step, counted)
    verdicts = made.judge(data.test)
    assert calls == [step]
    np.testing.assert_array_equal(verdicts.score, scores)
    np.testing.assert_array_equal(verdicts.nearest, made.classes_[matches.nearest])
    np.testing.assert_array_equal(verdicts.similarity, matches.similarity)


# All that match a row with a class by its logits; CW does it by cosines.
HEADED = sorted(
    name
    for name in typica.list_detectors()
    if name != "cw" and issubclass(typica.detector_class(name), ClassesOfHead)
)


@pytest.mark.parametrize("name", HEADED)
def test_judge_multiplies_by_the_head_once(name, data: Data, monkeypatch):
    made = typica.detector_class(name)(head=data.head).fit(data.train, data.labels)
    scores = made.score_samples(data.test)
    matches = made.match(data.test)
    calls = []
    logits = Head.logits

    def counted(head, Z):
        calls.append(len(Z))
        return logits(head, Z)

    monkeypatch.setattr(Head, "logits", counted)
    verdicts = made.judge(data.test)
    assert calls == ([] if name == "pnml" else [len(data.test)])  # which multiplies directions
    np.testing.assert_allclose(verdicts.score, scores, rtol=0 if name != "pnml" else 1e-12)
    np.testing.assert_array_equal(verdicts.nearest, made.classes_[matches.nearest])
    np.testing.assert_array_equal(verdicts.nearest, data.head.predict(data.test))
    expected = np.sort(logits(data.head, data.test), axis=1)[:, -1]
    np.testing.assert_allclose(verdicts.similarity, expected, rtol=1e-9)
