"""Cards for notebooks: whole, and escaped."""

from __future__ import annotations

import numpy as np
from helpers.data import Data

import typica
from typica.cards import card
from typica.metrics import evaluate_many


def test_everything_is_escaped():
    made = card("<a>", [["<td>", None, 0.123456]], ["<h>"], marked=[0], note="<n>")
    assert "<a>" not in made and "&lt;td&gt;" in made and "&lt;h&gt;" in made and "<n>" not in made
    assert "<td></td><td>0.1235</td>" in made and 'style="background' in made


def test_what_detectors_return_has_a_card(data: Data, tmp_path):
    labels = np.array(["<cat>", "dog", "owl", "eel"])[data.labels]
    detector = typica.CTM().fit(data.train, labels).calibrate(data.held_out)
    verdicts = detector.judge(data.test)
    explanation = detector.explain(data.ood[:1])[0]
    scores = detector.score_samples
    evaluation = evaluate_many("ctm", scores(data.test), {"<svhn>": scores(data.ood)})
    bank = typica.write_bank(
        tmp_path / "a.bank", data.train, labels=data.labels, classes=["<cat>", *"bcd"]
    )
    for thing, words in [
        (verdicts, ["120 verdicts", "&lt;cat&gt;", "and 100 more"]),
        (explanation, ["atypical", "nearest class"]),
        (evaluation, ["ctm: 120 ID inputs, 95 % kept", "&lt;svhn&gt;", "average"]),
        (bank, ["240 rows", "&lt;cat&gt;"]),
    ]:
        made = thing._repr_html_()
        assert made.startswith("<p><b>") and "<cat>" not in made and "<svhn>" not in made
        assert all(word in made for word in words), made
