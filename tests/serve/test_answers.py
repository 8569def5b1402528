"""Verdicts over HTTP, as JSON and in forms, equal to those of the library."""

from __future__ import annotations

import numpy as np
from helpers.serving import Serving

import typica


def test_rows_of_features(server: Serving, known) -> None:
    rows = np.concatenate([known.rows[:5], known.strange[:5]])
    expected = typica.load(known.file("ctm")).judge(rows.astype(np.float64))
    answer = server.post("/score?model=ctm", {"features": rows.tolist()})
    assert answer.status == 200, answer
    results = answer.json()["results"]
    assert [row["verdict"] for row in results] == expected.verdict.tolist()
    np.testing.assert_allclose([row["score"] for row in results], expected.score, rtol=1e-6)
    np.testing.assert_allclose([row["p_value"] for row in results], expected.p_value)


def test_images(server: Serving, known) -> None:
    answer = server.score(
        ("a.png", known.photos[0]),
        ("b.png", b"no image"),
        ("c.png", known.photos[50]),
        query="?model=seen",
    )
    assert answer.status == 200, answer
    print(answer.json())
