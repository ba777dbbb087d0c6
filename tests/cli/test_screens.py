"""What `dray explain`, `dray top` and `dray up` print on screens of 80, 100 and 160 columns, kept in tests/data/screens.

`RENEW_SCREENS=1 pytest tests/cli/test_screens.py` writes them again; then look at them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.api.gates import FeatureGates
from dray.assembly import ClusterOptions, ServerOptions, description
from dray.cli import _banner, main
from dray.testing import Cluster
from tests.inspect.situations import CLASS, DRIVER, claim, node, pod, request, rule, runs
from tests.waiting import wait_until

KEPT = Path(__file__).parents[1] / "data" / "screens"
WIDTHS = (80, 100, 160)
LARGE = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = {
    "explain": ("explain", "pod", "train-vision"),
    "explain-spread": ("explain", "pod", "everywhere"),
    "top-pools": ("top", "pools"),
    "top-nodes": ("top", "nodes"),
    "top-devices": ("top", "devices"),
    "top-claims": ("top", "claims", "-A"),
}
PARTS = {"large": request(count=1, selector=LARGE), "small": request("s", count=4)}


def on(name: str, number: int, *requests: dict[str, object]) -> object:
    where = {"nodeSelector": {"kubernetes.io/hostname": f"node-{number}"}}
    return runs(claim(name, *requests), pod(name, claims=[name], **where))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes with eight devices each; one is full, one has a device under maintenance; two pods wait."""
    with Cluster(nodes=3, devices=8) as made:
        steps = (
            rule(driver=DRIVER, pool="node-2", device="gpu-5"),
            on("train-llm", 0, request(count=8)),
            on("notebook", 1, request(selector=LARGE)),
            on("search", 2, request(selector=LARGE)),
            on("batch-of-the-research-department", 2, request(count=3)),
            claim("train-vision", request(count=2, selector=LARGE)),
            pod("train-vision", claims=["train-vision"]),
            node(1, {"spec": {"unschedulable": True}}),
            claim("everywhere", request("big", selector=LARGE, count=2), request("other", class_=CLASS, count=7)),
            pod("everywhere", claims=["everywhere"]),
        )
        for step in steps:
            step(made) if callable(step) else made.apply(step)  # type: ignore[arg-type]
        for name in ("train-vision", "everywhere"):
            wait_until(lambda name=name: made.get("pods", name)["status"].get("conditions"))  # type: ignore[misc]
        yield made


def compare(name: str, width: int, text: str) -> None:
    file = KEPT / f"{name}-{width}.txt"
    if os.environ.get("RENEW_SCREENS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.wording
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_screens(
    cluster: Cluster, name: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))
    assert main([*COMMANDS[name], "--kubeconfig", str(cluster.kubeconfig)]) == 0
    text = COLOUR.sub("", capsys.readouterr().out)
    for whole in ("train-llm", "batch-of-the-research-department", "node-2") if name.startswith("top-cl") else ():
        assert whole in text
    compare(name, width, text)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_banner_of_up(width: int) -> None:
    options = ClusterOptions(nodes=3, devices=4, profile="dgx-h100*4", agents=1, runtime="process")
    lines = [
        *description.runs(options),
        "taken over from an earlier start: 3 nodes, 12 pods",
        _banner.off(FeatureGates()),
    ]
    text = "\n".join([*_banner.shown(lines, width), *_banner.next_steps(Path("/home/me/.dray/kubeconfig"), options)])
    assert all(len(line) <= width for line in text.splitlines())
    compare("up", width, re.sub(r"\d+ features", "N features", text) + "\n")


@pytest.mark.parametrize(
    ("options", "third"),
    [
        (ClusterOptions(nodes=3), "dray example tour"),
        (ClusterOptions(agents=1), "dray example driver"),
        (ClusterOptions(profile="dgx-h100"), "kubectl get resourceslices"),
        (ServerOptions(), "dray docs tutorials"),
    ],
)
def test_the_banner_names_examples_that_work_in_this_cluster(options: ServerOptions, third: str) -> None:
    assert _banner.next_steps(Path("kubeconfig"), options)[-1] == third


def test_the_banner_promises_only_what_the_option_turns_on() -> None:
    assert _banner.off(FeatureGates.parse("AllAlpha=true")) == ""
    assert re.search(r"; --feature-gates AllAlpha=true turns them on$", _banner.off(FeatureGates()))
    assert re.search(r"turns \d+ of them on$", _banner.off(FeatureGates.parse("DRAPrioritizedList=false")))
    assert _banner.off(FeatureGates.parse("AllAlpha=true,DRAPrioritizedList=false")) == "1 feature off (`dray gates`)"


@pytest.mark.parametrize("name", ["top-pools", "top-nodes", "explain"])
def test_lines_stay_within_a_usual_screen(name: str) -> None:
    for width in WIDTHS:
        assert all(len(line) <= width for line in (KEPT / f"{name}-{width}.txt").read_text().splitlines())
