"""Conformal p-values beside those of crepes, another library for conformal prediction."""

from __future__ import annotations

import numpy as np
import pytest
from crepes import ConformalClassifier

import typica


@pytest.mark.filterwarnings("ignore::typica.CalibrationWarning")  # so few reject nothing
@pytest.mark.parametrize("n", [1, 7, 500])
@pytest.mark.parametrize("ties", [False, True])
def test_p_values_are_equal(n: int, ties: bool) -> None:
    rng = np.random.default_rng(n)
    rows = rng.normal(size=(n + 200, 1))
    if ties:
        rows = np.round(rows)
    # Of one logit: the score is the number itself.
    ours = typica.MaxLogit().fit(rows + 1, np.zeros(len(rows))).calibrate(rows[:n])
    theirs = ConformalClassifier().fit(-rows[:n, 0])
    expected = theirs.predict_p(-rows[n:, 0], smoothing=False)
    np.testing.assert_allclose(ours.p_values(rows[n:]), np.ravel(expected), rtol=1e-12)


def test_p_values_by_predicted_class_are_equal() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(900, 3))
    detector = typica.MaxLogit().fit(logits, logits.argmax(axis=1))
    ours = detector.calibrate(logits[:600], by_class=True)
    scores, classes = logits.max(axis=1), logits.argmax(axis=1)
    theirs = ConformalClassifier().fit(-scores[:600], bins=classes[:600])
    expected = theirs.predict_p(-scores[600:], bins=classes[600:], smoothing=False)
    np.testing.assert_allclose(ours.p_values(logits[600:]), np.ravel(expected), rtol=1e-12)
