"""Tools that only read, with the rights of a user: what each needs, and that a missing right is named, not guessed around."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dray.api.wire import Tree
from dray.cli import main
from dray.client.config import load
from dray.client.http import Http
from dray.testing.cluster import RunningCluster
from tests.cli.test_permissions import as_user
from tests.e2e.objects import claim, pod
from tests.permissions import READ, allow, rule

_DEVICES = ("resourceslices", "deviceclasses", "devicetaintrules", "resourceclaims", "resourceclaimtemplates")
# The minimal rights of each tool.
NEEDED: dict[str, dict[str, tuple[str, ...]]] = {
    "explain": {
        "": ("nodes", "pods", "namespaces", "events", "resourcequotas"),
        "resource.k8s.io": _DEVICES,
        "scheduling.k8s.io": ("podgroups",),
    },
    "top": {"": ("pods",), "resource.k8s.io": ("resourceslices", "resourceclaims", "devicetaintrules")},
    "top groups": {"": ("nodes", "pods"), "scheduling.k8s.io": ("podgroups",)},
    "lint": {
        "": ("nodes", "pods", "events", "resourcequotas"),
        "resource.k8s.io": _DEVICES,
        "scheduling.k8s.io": ("podgroups",),
    },
    "record": {
        "": ("nodes", "pods", "namespaces", "resourcequotas"),
        "resource.k8s.io": _DEVICES,
        "scheduling.k8s.io": ("priorityclasses", "podgroups"),
        "policy": ("poddisruptionbudgets",),
    },
}
NEEDED["what-if"] = NEEDED["record"]
# What `explain` needs for workloads, beside that.
WORKLOADS = {
    "": ("serviceaccounts",),
    "apps": ("deployments", "replicasets", "statefulsets", "daemonsets"),
    "batch": ("jobs",),
}


def rules_of(tool: str, without: str = "") -> list[Tree]:
    return [
        rule(group, name, verbs=("list", "watch") if tool == "record" else ("list",))
        for group, names in NEEDED[tool].items()
        for name in names
        if name != without
    ]


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with RunningCluster(store="memory", nodes=1, devices=2, feature_gates="GenericWorkload=true") as running:
        running.apply(claim("c"))
        running.apply(pod("p", claims=["c"]))
        yield running


@pytest.fixture
def config(cluster: RunningCluster, tmp_path: Path) -> Path:
    return as_user(cluster.kubeconfig, "reader", tmp_path / "config")


def grant(cluster: RunningCluster, *rules: Tree) -> None:
    async def granted() -> None:
        async with Http(load(str(cluster.kubeconfig))) as admin:
            await allow(admin, "reader", *rules)

    asyncio.run(granted())


def command(tool: str, config: Path, directory: Path) -> list[str]:
    manifest = directory / "claim.yaml"
    manifest.write_text(yaml.safe_dump(claim("new") | {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}))
    words = {
        "explain": ["explain", "pod", "p"],
        "top groups": ["top", "groups", "-A"],
        "top": ["top", "devices"],
        "lint": ["lint", "-f", str(manifest), "--cluster"],
        "record": ["record", "-o", str(directory / "recording")],
        "what-if": ["what-if", "--drain", "node-0"],
    }
    return [*words[tool], "--kubeconfig", str(config)]


@pytest.mark.parametrize("tool", NEEDED)
def test_the_documented_rights_of_a_tool_are_enough(
    cluster: RunningCluster, config: Path, tmp_path: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    grant(cluster, *rules_of(tool))
    main(command(tool, config, tmp_path))
    said = capsys.readouterr()
    assert "may not" not in said.out + said.err
    assert "forbidden" not in said.out + said.err


@pytest.mark.parametrize(
    ("tool", "missing"),
    [(tool, name) for tool, groups in NEEDED.items() for names in groups.values() for name in names],
)
def test_each_right_that_is_missing_is_named(
    cluster: RunningCluster,
    config: Path,
    tmp_path: Path,
    tool: str,
    missing: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    grant(cluster, *rules_of(tool, missing))
    main(command(tool, config, tmp_path))
    said = capsys.readouterr()
    assert "may not list" in said.out + said.err
    assert missing in said.out + said.err


@pytest.mark.parametrize("kind", ["deployment", "replicaset", "statefulset", "daemonset", "job"])
def test_a_workload_that_may_not_be_read_is_not_said_to_be_missing(
    cluster: RunningCluster, config: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    grant(cluster, *rules_of("explain"))
    assert main(["explain", kind, "w", "--kubeconfig", str(config)]) == 1
    assert f"you may not list {kind}s" in capsys.readouterr().err
    grant(cluster, *rules_of("explain"), *(rule(group, *names, verbs=("list",)) for group, names in WORKLOADS.items()))
    assert main(["explain", kind, "w", "--kubeconfig", str(config)]) == 1
    assert "may not list" not in capsys.readouterr().err


def test_lint_does_not_claim_that_a_class_is_missing_which_it_may_not_read(
    cluster: RunningCluster, config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grant(cluster, *rules_of("lint", "deviceclasses"))
    assert main(command("lint", config, tmp_path)) == 0
    said = capsys.readouterr()
    assert "there is no DeviceClass" not in said.out
    assert "you may not list deviceclasses; what depends on them is not checked" in said.err


@pytest.mark.parametrize("more", [[], ["--follow", "--seconds", "1"]])
def test_a_recording_of_what_may_not_be_read_is_an_error_and_no_file(
    cluster: RunningCluster, config: Path, tmp_path: Path, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    grant(cluster, rule("", "configmaps", verbs=READ))
    assert main([*command("record", config, tmp_path), *more]) == 1
    assert "nothing was recorded, and no file was written: you may not list deviceclasses" in capsys.readouterr().err
    assert not (tmp_path / "recording").exists()


def test_the_documentation_lists_these_rights() -> None:
    text = (Path(__file__).parents[2] / "docs/existing-clusters.md").read_text()
    table = text.partition("| tool | may list |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    told = {tool.strip("`"): names.split(", ") for tools, names in rows for tool in tools.split(", ")}
    assert told == {tool: [name for names in groups.values() for name in names] for tool, groups in NEEDED.items()}
