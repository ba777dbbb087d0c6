"""Rules and dashboard of the chart: every metric and label that they name is one that a scheduler of today publishes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.client.config import load
from dray.client.http import Http
from dray.sim.nodes import register
from tests.cli.components import counts, fetched, server
from tests.cli.running import Dray
from tests.deploy.roles import CHART
from tests.e2e.objects import claim, pod

Published = dict[str, set[str]]
"""Labels of each series, by its name; empty for one without samples."""
_WORDS = {"and", "or", "unless", "on", "by", "without", "ignoring", "bool", "group_left", "group_right", "offset"}
_OF_TARGETS = {"instance", "job", "pod", "namespace"}  # which Prometheus adds
_SERIES = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}


def series_in(expression: str) -> Iterator[tuple[str, set[str]]]:
    """The series that an expression of Prometheus names, each with the labels that it matches by."""
    bare = re.sub(r'"[^"]*"', '""', re.sub(r"\[[^]]*\]", "", _GROUPING.sub("", expression)))
    for found in _SERIES.finditer(bare):
        name, matchers = found[1], found[2] or ""
        if name not in _WORDS and not bare[found.end() :].startswith("("):
            yield name, set(re.findall(r"(\w+)\s*[=!]", matchers))


def grouped_by(expression: str) -> set[str]:
    return {label.strip() for group in _GROUPING.findall(expression) for label in group.split(",") if label.strip()}


def expressions() -> Iterator[str]:
    for group in yaml.safe_load((CHART / "monitoring/rules.yaml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"].replace("$__rate_interval", "5m")
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert asked is not None
            yield f"sum by ({asked[2]}) ({asked[1]})"


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CHART / "monitoring/dashboard.json").read_text())
    return found


def published(*texts: str) -> Published:
    found: Published = {}
    for family in (family for text in texts for family in text_string_to_metric_families(text)):
        for suffix in _SUFFIXES.get(family.type, ("",)):
            found.setdefault(family.name + suffix, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def unknown(expression: str, known: Published) -> list[str]:
    """What an expression names and nobody publishes."""
    named = [*series_in(expression)]
    missing = [name for name, _ in named if name not in known]
    for name, labels in named:
        if known.get(name):
            missing += [f"{name}{{{label}}}" for label in labels - known[name] - _OF_TARGETS]
    labels = set().union(*(known.get(name, set()) for name, _ in named))
    if all(known.get(name) for name, _ in named):
        missing += [f"by {label}" for label in grouped_by(expression) - labels - _OF_TARGETS]
    return missing


async def test_every_metric_and_label_of_rules_and_dashboard_exists(tmp_path: Path) -> None:
    with server(tmp_path) as kubeconfig:
        async with Http(load(str(kubeconfig))) as client:
            await register(client, 1, 1)
            await client.create(ResourceClaim, claim("c"))
            await client.create(Pod, pod("placed", claims=["c"]), namespace="default")
            await client.create(Pod, pod("waits", nodeSelector={"no": "where"}), namespace="default")
            with Dray("scheduler", "--kubeconfig", kubeconfig, "--port", "0") as scheduler:
                await counts(
                    scheduler,
                    'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1.0',
                    'scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1.0',
                )
                known = published(fetched(scheduler, "/metrics"), fetched(scheduler, "/metrics/resources"))
    assert {name: found for name in expressions() if (found := unknown(name, known))} == {}
    # Metrics whose labels cannot be checked, since nothing of the kind has happened here.
    empty = {name for expression in expressions() for name, _ in series_in(expression) if not known[name]}
    without = {
        "dray_devices_allocated_twice",
        "dray_events_dropped_total",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
    }
    assert {name for name in empty if "shadow" not in name and "victims" not in name} <= without


@pytest.mark.parametrize(
    ("expression", "missing"),
    [
        ("sum by (queue) (rate(known_total[5m])) > 0", []),
        ('histogram_quantile(0.9, sum by (le) (rate(unknown_bucket{a="b"}[5m])))', ["unknown_bucket"]),
        ('max(known_total{other="x"})', ["known_total{other}"]),
        ("sum by (other) (known_total)", ["by other"]),
        ("known_total and on (instance) sum(gone) unless known_total", ["gone"]),
    ],
)
def test_a_metric_or_label_that_nobody_publishes_is_found(expression: str, missing: list[str]) -> None:
    assert unknown(expression, {"known_total": {"queue"}}) == missing


def test_alerts_have_a_severity_and_are_told_of_in_the_documentation() -> None:
    told = (CHART.parents[1] / "docs/existing-clusters.md").read_text()
    for group in yaml.safe_load((CHART / "monitoring/rules.yaml").read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["labels"]["severity"] in ("critical", "warning", "info")
            assert f"`{rule['alert']}`" in told


def test_panels_of_the_dashboard_have_places_of_their_own() -> None:
    places: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not own & places
        assert at["x"] + at["w"] <= 24
        places |= own
