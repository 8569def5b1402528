"""Cards for notebooks: whole, and escaped."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.data import Data, fitted
from sklearn import config_context
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
    one = typica.evaluate(scores(data.test), scores(data.ood), bootstrap=20)
    bank = typica.write_bank(
        tmp_path / "a.bank", data.train, labels=data.labels, classes=["<cat>", *"bcd"]
    )
    for thing, words in [
        (verdicts, ["120 verdicts", "&lt;cat&gt;", "and 100 more"]),
        (explanation, ["atypical", "nearest class"]),
        (evaluation, ["ctm: 120 ID inputs, 95 % kept", "&lt;svhn&gt;", "average"]),
        (
            one,
            ["120 ID and 120 OOD inputs, 95 % of ID kept", "<td>AUROC ↑</td>", " to ", "score of"],
        ),
        (bank, ["240 rows", "&lt;cat&gt;"]),
    ]:
        made = thing._repr_html_()
        assert made.startswith("<p><b>") and "<cat>" not in made and "<svhn>" not in made
        assert all(word in made for word in words), made


def test_a_fitted_detector_shows_a_card_and_not_scikit_learns_diagram(data: Data):
    detector = typica.KNN(k=3)
    assert "sk-toggleable" in detector._repr_html_()  # what an unfitted one knows is its parameters
    labels = np.array(["<cat>", "dog", "owl", "eel"])[data.labels]
    detector = typica.CTM(correct_only=False).fit(data.train, labels)
    for made in (detector._repr_html_(), detector._repr_mimebundle_()["text/html"]):
        assert made.startswith("<p><b>CTM: 4 classes, 12 features, threshold ")
        assert "&lt;cat&gt;" in made and "<cat>" not in made and "sk-global" not in made
        assert "The threshold comes from training rows, which is optimistic" in made
    made = detector.calibrate(data.held_out)._repr_html_()
    assert "keeps 95 % (n=120)" in made and "optimistic" not in made
    assert detector._repr_mimebundle_()["text/plain"] == repr(detector)
    with config_context(display="text"):
        assert not hasattr(detector, "_repr_html_")
        assert set(detector._repr_mimebundle_()) == {"text/plain"}


def test_what_needs_no_fit_shows_what_it_was_calibrated_on(data: Data):
    detector = typica.Prototypes(data.train[:3]).calibrate(data.held_out)
    assert "(positive=array of 3 x 12): 3 classes, 12 features, threshold " in repr(detector)
    assert "array(" not in repr(detector) and "array([" not in detector._repr_html_()
    head = typica.MSP(data.head).calibrate(data.held_out)
    assert repr(head).startswith("MSP: 4 classes, 12 features, threshold ")


def test_a_pipeline_shows_scikit_learns_diagram_with_the_detector_in_it(data: Data):
    pipeline = make_pipeline(StandardScaler(), typica.CTM()).fit(data.train, data.labels)
    made = pipeline._repr_html_()
    assert "sk-toggleable" in made and "CTM" in made and "<p><b>" not in made


def test_what_is_printed_fits_a_line(data: Data):
    detector = typica.CTM().fit(data.train, data.labels).calibrate(data.held_out, alpha=0.1)
    assert repr(detector) == (
        f"CTM: 4 classes, 12 features, threshold {detector.offset_:.4g}, keeps 90 % (n=120)"
    )
    assert repr(detector.calibration_) == "Calibration: 120 scores, keeps 90 %"
    (explanation,) = detector.explain(data.ood[:1])
    assert repr([explanation]) == f"[Explanation({explanation})]"
    one = evaluate_many("ctm", [2.0, 3.0], {"far": [1.0]}, tpr=0.9)
    assert repr(one) == "ctm: 2 ID inputs, 1 OOD set, mean FPR90 0.00 %, AUROC 100.00 %"


@pytest.mark.parametrize("name", typica.list_detectors())
def test_every_detector_is_shown_in_a_pipeline(name, data: Data):
    detector = fitted(name, data)
    assert make_pipeline("passthrough", detector)._repr_html_()
