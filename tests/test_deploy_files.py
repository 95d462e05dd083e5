"""The dashboard and the alert rules use metrics that exist, with the labels that they have."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from penstock.spark.driver.measured import LABELS
from processes import ran

DEPLOY = Path(__file__).parents[1] / "deploy"
BOARD = json.loads((DEPLOY / "grafana.json").read_text())
RULES = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
METRIC = re.compile(r"\b(penstock_\w+)(\{[^}]*\})?")
# Labels that Prometheus adds to every metric of a scrape.
ADDED = {"instance", "job"}


PROMTOOL = shutil.which("promtool")


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus")
def test_prometheus_accepts_the_alert_rules():
    done = ran([PROMTOOL, "check", "rules", DEPLOY / "alerts.yaml"])
    assert done.returncode == 0, done.stderr
    assert f"{len(RULES)} rules found" in done.stdout


def uses(expression):
    """Yield each metric of an expression with the labels by which it is selected."""
    for name, selector in METRIC.findall(expression):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))


def targets():
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield pytest.param(target, id=f"{panel['title']} {target['refId']}")


def test_uses_are_found():
    found = list(uses('rate(penstock_a_total{query=~"$q", x="1"}[5m]) > penstock_b'))
    assert found == [("penstock_a_total", {"query", "x"}), ("penstock_b", set())]


@pytest.mark.parametrize("target", list(targets()))
def test_panels_use_metrics_that_exist(target):
    found = list(uses(target["expr"]))
    assert found
    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    for name, labels in found:
        assert name in LABELS
        assert labels <= set(LABELS[name])
        assert shown <= set(LABELS[name])
        assert (name.endswith("_total")) == bool(
            re.search(rf"(rate|increase)\({name}", target["expr"])
        )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_alerts_use_metrics_that_exist(rule):
    found = list(uses(rule["expr"]))
    assert found
    texts = " ".join(rule["annotations"].values())
    shown = set(re.findall(r"\$labels\.(\w+)", texts))
    for name, labels in found:
        assert name in LABELS
        assert labels <= set(LABELS[name])
        assert shown - ADDED <= set(LABELS[name])
    # Both sides of a comparison of metrics have the same labels.
    assert len({LABELS[name] for name, _ in found}) == 1
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "description"}


def test_alerts_cover_what_can_go_wrong():
    assert [rule["alert"] for rule in RULES] == [
        "PenstockQueryFailed",
        "PenstockFailedRecords",
        "PenstockWaitingAboveTarget",
        "PenstockFallback",
        "PenstockSlowExecutor",
        "PenstockBacklogGrowing",
        "PenstockLoopFails",
    ]


def test_variables_of_the_board_are_labels():
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert variables.keys() == {"datasource", "query", "operator"}
    for name in ("query", "operator"):
        metric, label = re.fullmatch(
            r"label_values\((\w+), (\w+)\)", variables[name]["definition"]
        ).groups()
        assert label == name
        assert label in LABELS[metric]


def test_the_board_has_panels_that_do_not_overlap():
    places = [tuple(panel["gridPos"][side] for side in "xy") for panel in BOARD["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(places)
