"""What Prometheus scrapes, the monitor on the live stream, and files for Grafana and Prometheus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from helpers.serving import Serving, serving
from prometheus_client.parser import text_string_to_metric_families

import typica
import typica.serve

MONITORING = Path(typica.serve.__file__).parent / "monitoring"
DASHBOARD = MONITORING / "grafana-dashboard.json"
RULES = MONITORING / "prometheus-rules.yml"
MODEL = 'model="ctm"'


@pytest.fixture(scope="module")
def counted(known) -> Iterator[Serving]:
    """A server whose stream is these tests' own."""
    with serving(known.file("ctm"), known.file("raw"), env=known.env) as server:
        yield server


def test_every_input_is_counted(counted: Serving, known) -> None:
    rows = np.concatenate([known.rows[:48], known.strange[:2]])
    expected = typica.load(known.file("ctm")).judge(rows)
    for start in range(0, 50, 10):
        counted.infer("ctm", rows[start : start + 10])
    found = counted.metrics()
    rejected = expected.n_atypical
    assert 2 <= rejected < 10
    assert found[f'typica_inputs_total{{{MODEL},verdict="typical"}}'] == 50 - rejected
    assert found[f'typica_inputs_total{{{MODEL},verdict="atypical"}}'] == rejected
    assert found[f"typica_rejected_ratio{{{MODEL}}}"] == rejected / 50
    assert found[f"typica_inference_seconds_count{{{MODEL}}}"] == 5
    assert found[f"typica_score_count{{{MODEL}}}"] == 50
    assert found[f"typica_score_sum{{{MODEL}}}"] == pytest.approx(expected.score.sum(), rel=1e-6)
    assert found[f"typica_waiting_inputs{{{MODEL}}}"] == 0
    threshold = typica.load(known.file("ctm")).offset_
    below = np.count_nonzero(expected.score <= threshold)
    [bucket] = [
        name
        for name in found
        if name.startswith("typica_score_bucket") and f'le="{threshold}"' in name
    ]
    assert found[bucket] == below


def test_a_detector_without_a_calibration(counted: Serving, known) -> None:
    counted.infer("raw", known.rows[:3])
    found = counted.metrics()
    names = {name.partition("{")[0] for name in found if 'model="raw"' in name}
    assert "typica_inputs_total" in names and "typica_score_count" in names
    assert not any(name.startswith("typica_monitor") for name in names)
    [info] = [
        name for name in found if name.startswith("typica_detector_info") and 'model="raw"' in name
    ]
    assert 'calibrated="false"' in info and f'version="{typica.__version__}"' in info


def test_names_follow_the_conventions(counted: Serving) -> None:
    """Base units, counters that end in _total, help for each; both ports tell the same."""
    text = counted.ask("/metrics", port=counted.metrics_port).body.decode()
    kinds = {}
    for family in text_string_to_metric_families(text):
        if family.name.startswith("typica_") and not family.name.endswith("_created"):
            assert family.documentation.endswith(".")
            kinds[family.name] = family.type
    assert kinds == {
        "typica_inputs": "counter",
        "typica_reloads": "counter",
        "typica_refused": "counter",
        "typica_score": "histogram",
        "typica_inference_seconds": "histogram",
        "typica_monitor_wealth": "gauge",
        "typica_monitor_wealth_limit": "gauge",
        "typica_monitor_alarm": "gauge",
        "typica_rejected_ratio": "gauge",
        "typica_waiting_inputs": "gauge",
        "typica_detector_info": "gauge",
    }
    answer = counted.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    ours = {
        line.partition(" ")[0]
        for line in answer.body.decode().splitlines()
        if line.startswith("typica_")
    }
    assert ours == {
        line.partition(" ")[0] for line in text.splitlines() if line.startswith("typica_")
    }


def test_the_alarm_shows_in_metrics_and_log(counted: Serving, known) -> None:
    found = counted.metrics()
    assert found[f"typica_monitor_alarm{{{MODEL}}}"] == 0
    assert not counted.events("drift alarm")
    limit = found[f"typica_monitor_wealth_limit{{{MODEL}}}"]
    for start in range(0, 200, 10):
        counted.infer("ctm", known.strange[start : start + 10])
    found = counted.metrics()
    assert found[f"typica_monitor_alarm{{{MODEL}}}"] == 1
    assert found[f"typica_monitor_wealth{{{MODEL}}}"] > limit == 100
    alarm = counted.wait_for("drift alarm")
    assert (alarm["level"], alarm["model"], alarm["limit"]) == ("warning", "ctm", 100)
    assert len(counted.events("drift alarm")) == 1  # once
    told = counted.ask("/stream").json()["models"]["ctm"]["monitor"]
    assert told["alarm"] and told["alarm_at"] == alarm["alarm_at"]


def known_names(server: Serving) -> set[str]:
    return {name.partition("{")[0] for name in server.metrics()}


def named(expression: str) -> set[str]:
    """Return our metrics that an expression of PromQL names, and its labels must be theirs."""
    return set(re.findall(r"\btypica_[a-z_]+\b", expression))


def test_the_dashboard_names_what_is_there(counted: Serving) -> None:
    board = json.loads(DASHBOARD.read_text())
    names, ids = set(), []
    for panel in board["panels"]:
        ids.append(panel["id"])
        assert panel["title"] and panel["description"] and panel["targets"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for target in panel["targets"]:
            assert named(target["expr"])
            names |= named(target["expr"])
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert set(variables) == {"datasource", "model"}
    names |= named(json.dumps(board["templating"])) | named(json.dumps(board["annotations"]))
    assert names <= known_names(counted)
    assert len(ids) == len(set(ids))
    needed = {"typica_inputs_total", "typica_score_bucket", "typica_inference_seconds_bucket"}
    needed |= {"typica_monitor_wealth", "typica_rejected_ratio", "typica_detector_info"}
    assert needed <= names


def test_the_alert_rules_name_what_is_there(counted: Serving) -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert [rule["alert"] for rule in rules] == ["TypicaDrift", "TypicaRejectsMany"]
    for rule in rules:
        assert named(rule["expr"]) and named(rule["expr"]) <= known_names(counted)
        assert rule["annotations"]["summary"] and rule["labels"]["severity"]


def test_the_labels_in_expressions_are_there(counted: Serving) -> None:
    """A label that is misspelt would match nothing, silently."""
    labels: dict[str, set[str]] = {}
    for name in counted.metrics():
        metric, _, inside = name.partition("{")
        labels.setdefault(metric, set()).update(re.findall(r'(\w+)="', inside))
    text = DASHBOARD.read_text().replace('\\"', '"') + RULES.read_text()
    for metric, inside in re.findall(r"\b(typica_[a-z_]+)\{([^}]*)\}", text):
        assert set(re.findall(r"(\w+)=~?\"", inside)) <= labels[metric]
    for group in re.findall(r"by \(([^)]*)\)", text):
        assert set(group.replace(" ", "").split(",")) <= {"job", "instance"}.union(*labels.values())
