"""What the log says of scheduling rules."""

from __future__ import annotations

import logging

import pytest

from dray.api.verbosity import WHY
from dray.scheduler import rule_log
from tests.core.test_attempt import Scene, known_claim, one, pod


def test_what_rules_say_is_logged_in_few_lines_and_only_if_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(nodes=300, devices=1)
    with caplog.at_level(logging.DEBUG, "dray"):
        rule_log.observe(scene.placement, scene.table)
        scene.decide(pod("quiet"))
    assert scene.placement.observe is None
    assert not caplog.records
    with caplog.at_level(WHY, "dray"):
        rule_log.observe(scene.placement, scene.table)
        scene.refusal(pod("p"), known_claim("c", one('device.attributes["gpu.example.com"].model == "none"')))
    [devices] = [r.getMessage() for r in caplog.records if "DynamicResources" in r.getMessage()]
    assert devices.startswith("pod default/p: DynamicResources refuses (")
    assert devices.endswith("node-99 and 200 more")
    rules = {message.split()[2] for r in caplog.records if (message := r.getMessage())}
    assert rules == {
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "DynamicResources",
    }
