"""Situations in which a pod waits in a real cluster, and what `dray explain` must say of each.

The pod is always `p` in namespace default. Each situation is a list of steps: objects that are created in order, or
functions of the cluster. Two simulated nodes with two devices each, unless it says otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import dray
from dray.api.extended_resources import IMPLICIT_PREFIX
from dray.api.wire import Tree
from dray.sim.hardware import CLASS, DRIVER
from dray.testing import Cluster
from tests import objects
from tests.e2e.objects import alternatives, claim, request, template
from tests.e2e.objects import pod as pod_tree
from tests.waiting import wait_until

API = "resource.k8s.io/v1"
Step = Tree | Callable[[Cluster], Any]
MODEL = f'device.attributes["{DRIVER}"].model == "%s"'
INDEX = f'device.attributes["{DRIVER}"].index == %d'
MEMORY = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("%s")) >= 0'
ROOT = "resource.kubernetes.io/pcieRoot"
HOSTNAME = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Situation:
    """How a pod comes to wait, the cause, a part of the first line, and what helps first; None where nothing does."""

    name: str
    code: str
    says: str
    helps: str | None
    steps: tuple[Step, ...]
    options: dict[str, Any] = field(default_factory=lambda: {"nodes": 2, "devices": 2})


# Objects


def pod(name: str = "p", **more: Any) -> Tree:
    """A pod that uses claim c, unless it says otherwise."""
    if not {"claims", "templates", "resourceClaims", "containers"} & more.keys():
        more["claims"] = ["c"]
    return pod_tree(name, **more)


def bare(name: str = "p", **more: Any) -> Tree:
    return pod(name, claims=[], **more)


def wants(text: str, **more: Any) -> Tree:
    return claim("c", request(selector=text, **more))


def class_(name: str, expression: str, **spec: Any) -> Tree:
    return objects.device_class(name, expression, **spec)


def resources(amounts: Tree, name: str = "p", **more: Any) -> Tree:
    container = {"name": "main", "image": "app", "resources": {"requests": amounts, "limits": amounts}}
    return pod(name, containers=[container], **more)


def quota(**hard: str) -> Tree:
    spec = {"hard": hard}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": spec,
    }


def namespace(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def rule(**selector: str) -> Tree:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    spec = {"deviceSelector": selector, "taint": taint}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "fan"},
        "spec": spec,
    }


def group(*claims: Tree, gang: int = 0) -> Tree:
    policy: Tree = {"gang": {"minCount": gang}} if gang else {"basic": {}}
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": policy, "resourceClaims": [*claims]},
    }


# Steps


def phase(cluster: Cluster, name: str) -> str:
    return str(cluster.get("pods", name).get("status", {}).get("phase"))


def runs(*trees: Tree) -> Callable[[Cluster], None]:
    """Create objects, and wait until the pods among them run."""

    def step(cluster: Cluster) -> None:
        for tree in trees:
            cluster.apply(tree)
        for tree in trees:
            if tree["kind"] == "Pod":
                name = tree["metadata"]["name"]
                wait_until(lambda name=name: phase(cluster, name) == "Running")  # type: ignore[misc]

    return step


def holder(name: str, count: int = 1, node: str = "", **more: Any) -> Step:
    """A pod that runs with devices of its own."""
    where = {"nodeSelector": {HOSTNAME: node}} if node else {}
    return runs(claim(name, request(count=count)), pod(name, claims=[name], **where, **more))


def made_by_workload(name: str, **spec: Any) -> Step:
    """A Deployment with one pod, which runs."""

    def owned(cluster: Cluster) -> list[Tree]:
        return [one for one in cluster.list("pods") if one["metadata"]["name"].startswith(f"{name}-")]

    def step(cluster: Cluster) -> None:
        cluster.apply(objects.deployment(name, 1, namespace="default", **pod("unused", **spec)["spec"]))
        wait_until(lambda: [one["status"].get("phase") for one in owned(cluster)] == ["Running"])

    return step


def ended(name: str) -> Step:
    """The end of a pod, with the devices of its claim free."""

    def step(cluster: Cluster) -> None:
        cluster.delete("pods", name)
        wait_until(lambda: "allocation" not in cluster.get("resourceclaims", name).get("status", {}))

    return step


def device(cluster: Cluster, node: int, number: int, **fields: Any) -> None:
    """Publish a device otherwise; a field that is None goes."""
    name = f"node-{node}-{DRIVER}-0"
    devices = cluster.get("resourceslices", name)["spec"]["devices"]
    changed = {**devices[number], **fields}
    devices = [
        *devices[:number],
        {key: value for key, value in changed.items() if value is not None},
        *devices[number + 1 :],
    ]
    cluster.patch("resourceslices", name, {"spec": {"devices": [*devices]}})


def changed(node: int, number: int, **fields: Any) -> Step:
    return lambda cluster: device(cluster, node, number, **fields)


def everywhere(**fields: Any) -> Step:
    return lambda cluster: [device(cluster, node, number, **fields) for node in (0, 1) for number in (0, 1)]


def without_node(number: int) -> Step:
    """Take a node and its devices away."""

    def step(cluster: Cluster) -> None:
        cluster.delete("nodes", f"node-{number}")
        wait_until(lambda: all(s["spec"]["nodeName"] != f"node-{number}" for s in cluster.list("resourceslices")))

    return step


def node(number: int, body: Tree, subresource: str = "") -> Step:
    return lambda cluster: cluster.patch("nodes", f"node-{number}", body, subresource=subresource)


def both_nodes(body: Tree, subresource: str = "") -> Step:
    return lambda cluster: [cluster.patch("nodes", f"node-{n}", body, subresource=subresource) for n in (0, 1)]


def deleting(plural: str, name: str) -> Step:
    return lambda cluster: cluster.delete(plural, name)


def pool(node: int, count: int) -> Step:
    """Say that a pool has so many slices."""
    body = {"spec": {"pool": {"resourceSliceCount": count}}}
    return lambda cluster: cluster.patch("resourceslices", f"node-{node}-{DRIVER}-0", body)


def doubled(node: int, driver: str = DRIVER) -> Step:
    """Publish a pool with a device that stands in two slices."""

    def step(cluster: Cluster) -> None:
        name = f"node-{node}-{DRIVER}-0"
        home = cluster.get("resourceslices", name)["spec"]
        spec = {**home, "driver": driver, "pool": {**home["pool"], "resourceSliceCount": 2}}
        if driver == DRIVER:
            cluster.patch("resourceslices", name, {"spec": {"pool": spec["pool"]}})
        for number in range(1 if driver == DRIVER else 2):
            meta = {"name": f"second-{driver}-{number}"}
            cluster.apply({"apiVersion": API, "kind": "ResourceSlice", "metadata": meta, "spec": spec})

    return step


ANTI = {"podAntiAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOSTNAME}]}}
NEAR = {"podAffinity": {REQUIRED: [{"labelSelector": {"matchLabels": {"app": "nobody"}}, "topologyKey": HOSTNAME}]}}
ZONE = {
    "nodeAffinity": {
        REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["mars"]}]}]}
    }
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "x"}},
    "nodeAffinityPolicy": "Ignore",
}
TAINT = [{"key": "gpu", "value": "only", "effect": "NoSchedule"}]
BROKEN = [{"key": "broken", "value": "yes", "effect": "NoSchedule"}]
PORT = [{"name": "main", "image": "app", "ports": [{"containerPort": 80, "hostPort": 8080}]}]
SHAREABLE = {"allowMultipleAllocations": True}
FULL = (holder("x0", 2, "node-0"), holder("x1", 2, "node-1"))
ON_0 = {"nodeSelector": {HOSTNAME: "node-0"}}
IN_GROUP = {"schedulingGroup": {"podGroupName": "g"}}


def capacity(amount: str, name: str = "c") -> Tree:
    return claim(name, request(capacity={"requests": {"memory": amount}}))


def partitions(cluster: Cluster) -> None:
    """One card with eight slices of memory; two partitions of it overlap."""
    counters = {f"slice-{number}": {"value": "1"} for number in range(8)}
    pool = {"name": "card", "generation": 1, "resourceSliceCount": 2}
    home = {"driver": DRIVER, "nodeName": "node-0", "pool": pool}

    def part(name: str, *slices: int) -> Tree:
        drawn = {f"slice-{number}": {"value": "1"} for number in slices}
        model = {"model": {"string": name}}
        return {"name": name, "attributes": model, "consumesCounters": [{"counterSet": "card", "counters": drawn}]}

    shared = {"sharedCounters": [{"name": "card", "counters": counters}]}
    for name, spec in (("card-0", shared), ("card-1", {"devices": [part("half", 4, 5, 6, 7), part("small", 5)]})):
        cluster.apply(
            {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": {**home, **spec}}
        )


NAMES = (
    Situation(
        "a slip in the name of a class",
        "ClassMissing",
        "did you mean gpu.example.com?",
        "help-use-class",
        (claim("c", request(class_="gpu.exmaple.com")), pod()),
    ),
    Situation(
        "a slip in the name of a class in a template",
        "ClassMissing",
        "does not exist",
        "help-use-class",
        (template("t", request(class_="gpu.exmaple.com")), pod(templates=["t"])),
    ),
    Situation(
        "a class that is gone",
        "ClassMissing",
        "device class gpu.example.com does not exist",
        "help-create-class",
        (deleting("deviceclasses", CLASS), claim(), pod()),
    ),
    Situation(
        "a class with a slip in its driver",
        "ClassMatchesNothing",
        "class cards matches none of the 4",
        "help-class-selector",
        (class_("cards", 'device.driver == "gpu.exmaple.com"'), claim("c", request(class_="cards")), pod()),
    ),
    Situation(
        "a class of devices that nobody has",
        "ClassMatchesNothing",
        "no device has driver = fpga.example.com",
        None,
        (class_("fpga", 'device.driver == "fpga.example.com"'), claim("c", request(class_="fpga")), pod()),
    ),
    Situation(
        "a slip in the name of a claim",
        "ClaimMissing",
        "did you mean training?",
        "help-use-claim",
        (claim("training"), pod(claims=["trainin"])),
    ),
    Situation(
        "a claim of another namespace",
        "ClaimMissing",
        '"c" does not exist',
        "help-copy-claim",
        (namespace("other"), claim("c", namespace="other"), pod()),
    ),
    Situation("a claim that nobody has", "ClaimMissing", '"c" does not exist', None, (pod(),)),
    Situation(
        "a slip in the name of a template",
        "TemplateMissing",
        "did you mean two-gpus?",
        "help-use-template",
        (template("two-gpus"), pod(templates=["two-gpu"])),
    ),
    Situation(
        "a template of another namespace",
        "TemplateMissing",
        '"t" does not exist',
        "help-copy-template",
        (namespace("other"), template("t", namespace="other"), pod(templates=["t"])),
    ),
    Situation(
        "the name of a template where that of a claim belongs",
        "ClaimMissing",
        "there is a ResourceClaimTemplate of that name",
        "help-as-template",
        (template("t"), pod(claims=["t"])),
    ),
    Situation(
        "the name of a claim where that of a template belongs",
        "TemplateMissing",
        "there is a ResourceClaim of that name",
        "help-as-claim",
        (claim("c"), pod(templates=["c"])),
    ),
    Situation(
        "a slip in an extended resource",
        "NoSuchResource",
        "did you mean example.com/gpu?",
        "help-use-resource",
        (
            class_("served", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu"),
            resources({"example.com/gpus": "1"}),
        ),
    ),
    Situation(
        "a slip in a class that is asked for as an extended resource",
        "NoSuchResource",
        f"did you mean {IMPLICIT_PREFIX}{CLASS}?",
        "help-use-resource",
        (resources({f"{IMPLICIT_PREFIX}gpu.exmaple.com": "1"}),),
    ),
    Situation(
        "an extended resource that nothing serves",
        "NoSuchResource",
        "nothing serves acme.org/tpu",
        None,
        (resources({"acme.org/tpu": "1"}),),
    ),
    Situation(
        "a group that does not exist",
        "GroupMissing",
        'podgroup "g" does not exist',
        "help-create-group",
        (claim(), pod(**IN_GROUP)),
    ),
    Situation(
        "a claim that the group does not have",
        "GroupClaimMissing",
        "which has no such claim",
        "help-group-claim",
        (
            claim("shared"),
            group({"name": "gpus", "resourceClaimName": "shared"}),
            pod(
                resourceClaims=[{"name": "c0", "podGroupResourceClaim": "gpu"}],
                workloadRef={"name": "w", "podGroupName": "g"},
            ),
        ),
    ),
)

SELECTORS = (
    Situation(
        "a slip in the name of an attribute",
        "SelectorFails",
        "did you mean model?",
        "help-selector-name",
        (wants(f'device.attributes["{DRIVER}"].modle == "a100"'), pod()),
    ),
    Situation(
        "an attribute in the wrong case, guarded",
        "UnknownAttribute",
        "did you mean model?",
        "help-selector-name",
        (wants(f'device.attributes["{DRIVER}"].?Model.orValue("") == "a100"'), pod()),
    ),
    Situation(
        "an attribute of another domain",
        "UnknownAttribute",
        f'of domain "{DRIVER}"',
        "help-selector-name",
        (wants('device.attributes["gpu.exampl.com"].?model.orValue("") == "a100"'), pod()),
    ),
    Situation(
        "a capacity taken for an attribute",
        "UnknownAttribute",
        f'did you mean device.capacity["{DRIVER}"].memory',
        None,
        (wants(f'device.attributes["{DRIVER}"].?memory.orValue("") == "40Gi"'), pod()),
    ),
    Situation(
        "an attribute that not every device has",
        "SelectorFails",
        "no such key: model",
        "help-selector-guard",
        (changed(0, 0, attributes={"index": {"int": 0}}), wants(MODEL % "a100"), pod()),
    ),
    Situation(
        "a value in the wrong case",
        "NoMatch",
        "no device has model = A100",
        "help-selector-value",
        (wants(MODEL % "A100"), pod()),
    ),
    Situation(
        "a slip in the driver that a selector names",
        "NoMatch",
        "no device has driver = gpu.exmaple.com",
        "help-selector-value",
        (wants('device.driver == "gpu.exmaple.com"'), pod()),
    ),
    Situation(
        "a value that no device has",
        "NoMatch",
        "model is a100 on 4",
        "help-selector-value",
        (wants(MODEL % "h100"), pod()),
    ),
    Situation(
        "a number that no device has",
        "NoMatch",
        "no device has index = 7",
        "help-selector-value",
        (wants(f'device.attributes["{DRIVER}"].index == 7'), pod()),
    ),
    Situation(
        "more memory than any device has",
        "NoMatch",
        "no device has memory ≥ 80Gi",
        "help-selector-value",
        (wants(MEMORY % "80Gi"), pod()),
    ),
    Situation(
        "a newer driver than any device has",
        "NoMatch",
        "none of 4",
        "help-selector-value",
        (wants(f'device.attributes["{DRIVER}"].driverVersion.compareTo(semver("2.0.0")) >= 0'), pod()),
    ),
    Situation(
        "conditions that no device meets together",
        "NoMatch",
        "no device meets all of it",
        "help-selector-value",
        (
            everywhere(attributes={"model": {"string": "a100"}, "index": {"int": 5}}),
            changed(0, 0, attributes={"model": {"string": "h100"}, "index": {"int": 0}}),
            wants(f'{MODEL % "h100"} && device.attributes["{DRIVER}"].index == 5'),
            pod(),
        ),
    ),
    Situation(
        "a selector of a class that fails",
        "SelectorFails",
        "did you mean model?",
        "help-class-selector",
        (class_("large", f'device.attributes["{DRIVER}"].modle == "a100"'), claim("c", request(class_="large")), pod()),
    ),
)

NUMBERS = (
    Situation(
        "more devices than a node has",
        "TooFewDevices",
        "no node that it may use has more than 2",
        "help-fewer-devices",
        (claim("c", request(count=3)), pod()),
    ),
    Situation(
        "more devices than a node has, in a template",
        "TooFewDevices",
        "needs 3 devices on one node",
        "help-fewer-devices",
        (template("t", request(count=3)), pod(templates=["t"])),
    ),
    Situation(
        "more matching devices than a node has",
        "TooFewDevices",
        "at most 1 on one node",
        "help-fewer-devices",
        (wants(f'device.attributes["{DRIVER}"].index == 0', count=2), pod()),
    ),
    Situation(
        "all devices are taken",
        "AllTaken",
        "all 4 that match are taken",
        "help-end-pods",
        (*FULL, claim(), pod()),
    ),
    Situation(
        "some devices are taken and the others tainted",
        "AllTaken",
        "2 of 4 that match are taken, 2 tainted: maintenance:NoSchedule, by DeviceTaintRule fan",
        "help-end-pods",
        (holder("x0", 2, "node-0"), rule(driver=DRIVER, pool="node-1"), claim(), pod()),
    ),
    Situation(
        "free devices are spread over nodes",
        "Fragmented",
        "2 are free, but spread over 2 nodes",
        "help-end-pods",
        (holder("x0", 1, "node-0"), holder("x1", 1, "node-1"), claim("c", request(count=2)), pod()),
    ),
    Situation(
        "a pod that a workload makes again takes one of two devices",
        "Fragmented",
        "2 are free, but spread over 2 nodes",
        "help-move-pods",
        (
            holder("x1", 2, "node-1"),
            template("one", request()),
            made_by_workload("web", templates=["one"]),
            ended("x1"),
            holder("x2", 1, "node-1"),
            claim("c", request(count=2)),
            pod(),
        ),
    ),
    Situation(
        "the devices of a class are taken, and another class has some",
        "AllTaken",
        "all 2 that match are taken",
        "help-end-pods",
        (
            class_("first", INDEX % 0),
            class_("second", INDEX % 1),
            runs(claim("x0", request(class_="first", count=1)), pod("x0", claims=["x0"])),
            runs(claim("x1", request(class_="first", count=1)), pod("x1", claims=["x1"])),
            claim("c", request(class_="first")),
            pod(),
        ),
    ),
    Situation(
        "all devices are taken by less important pods than this one could be",
        "AllTaken",
        "all 4 that match are taken",
        "help-end-pods",
        (
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "urgent"},
                "value": 1000,
            },
            *FULL,
            claim(),
            pod(),
        ),
    ),
    Situation(
        "the nearest node and not the first is told of",
        "AllTaken",
        "all 2 that match are taken",
        "help-end-pods",
        (
            everywhere(attributes={"model": {"string": "a100"}}),
            changed(1, 0, attributes={"model": {"string": "h100"}}),
            changed(1, 1, attributes={"model": {"string": "h100"}}),
            holder("x1", 2, "node-1"),
            wants(MODEL % "h100"),
            pod(),
        ),
    ),
    Situation(
        "all devices of a node are asked for and one is taken",
        "NotAllFree",
        "asks for all 2 matching devices",
        "help-end-pods",
        (holder("x0", 1, "node-0"), holder("x1", 1, "node-1"), claim("c", request(allocationMode="All")), pod()),
    ),
    Situation(
        "an extended resource whose devices are taken",
        "AllTaken",
        "extended resource example.com/gpu",
        "help-end-pods",
        (
            class_("served", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu"),
            *FULL,
            resources({"example.com/gpu": "1"}),
        ),
    ),
    Situation(
        "more devices than a claim may have",
        "TooManyDevices",
        "exceeds the claim limit of 32",
        "help-fewer-devices",
        (claim("c", request(count=33)), pod()),
        {"nodes": 1, "devices": 40},
    ),
    Situation(
        "two claims compete",
        "Conflict",
        "need 4 devices and compete for 2",
        "help-split",
        (claim("a", request(count=2)), claim("b", request(count=2)), pod(claims=["a", "b"])),
    ),
    Situation(
        "two requests of one claim compete",
        "Conflict",
        "need 2 devices and compete for 1",
        None,
        (claim("c", request("a", selector=INDEX % 0), request("b", selector=INDEX % 0)), pod()),
    ),
    Situation(
        "the smallest alternative needs the smallest change",
        "AlternativesShort",
        "small: 3 of 4 that match are taken, 1 free",
        "help-end-pods",
        (
            holder("x0", 2, "node-0"),
            holder("x1", 1, "node-1"),
            claim("c", alternatives(request("big", count=4), request("small", count=2))),
            pod(),
        ),
    ),
    Situation(
        "no alternative can be served",
        "AlternativesShort",
        "none of the 2 alternatives",
        "help-selector-value",
        (
            holder("x0", 1, "node-0"),
            holder("x1", 1, "node-1"),
            claim("c", alternatives(request("big", selector=MODEL % "h100"), request("two", count=2))),
            pod(),
        ),
    ),
    Situation(
        "more of a capacity than there is",
        "CapacityTooLarge",
        "40Gi in all",
        "help-less-capacity",
        (everywhere(**SHAREABLE), capacity("80Gi"), pod()),
    ),
    Situation(
        "capacity that others hold",
        "CapacityExhausted",
        "10Gi left",
        "help-less-capacity",
        (
            without_node(1),
            changed(0, 0, **SHAREABLE),
            changed(0, 1, name="gone", attributes={}, **SHAREABLE),
            lambda cluster: cluster.patch(
                "resourceslices",
                f"node-0-{DRIVER}-0",
                {"spec": {"devices": [cluster.get("resourceslices", f"node-0-{DRIVER}-0")["spec"]["devices"][0]]}},
            ),
            runs(capacity("30Gi", "x"), pod("x", claims=["x"])),
            capacity("20Gi"),
            pod(),
        ),
    ),
    Situation(
        "counters that another partition draws on",
        "CountersExhausted",
        "slice-5 of counter set card",
        "help-end-pods",
        (
            class_(CLASS, f'device.driver == "{DRIVER}"'),
            partitions,
            runs(claim("x", request(selector=MODEL % "small")), pod("x", claims=["x"])),
            wants(MODEL % "half"),
            pod(),
        ),
        {"nodes": 1, "devices": 0},
    ),
)

CONSTRAINTS = (
    Situation(
        "devices must share a value and do not",
        "Constraint",
        f"share {ROOT}",
        "help-no-constraint",
        (
            *(changed(n, 1, attributes={ROOT: {"string": "pci-b"}}) for n in (0, 1)),
            claim("c", request(count=2), constraints=[{"matchAttribute": ROOT}]),
            pod(),
        ),
    ),
    Situation(
        "two requests must share a value and do not",
        "Constraint",
        f"share {ROOT}",
        "help-no-constraint",
        (
            *(changed(n, 1, attributes={ROOT: {"string": "pci-b"}, "model": {"string": "h100"}}) for n in (0, 1)),
            claim(
                "c",
                request("small", selector=f'device.attributes["{DRIVER}"].?model.orValue("") == "a100"'),
                request("large", selector=f'device.attributes["{DRIVER}"].?model.orValue("") == "h100"'),
                constraints=[{"matchAttribute": ROOT}],
            ),
            pod(),
        ),
    ),
    Situation(
        "a slip in the attribute of a constraint",
        "ConstraintAttribute",
        f"did you mean {ROOT}?",
        "help-constraint-name",
        (claim("c", request(count=2), constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoots"}]), pod()),
    ),
    Situation(
        "a constraint on an attribute that nobody has",
        "ConstraintAttribute",
        "which 0 of 4 devices have",
        "help-no-constraint",
        (claim("c", request(count=2), constraints=[{"matchAttribute": "acme.org/blade"}]), pod()),
    ),
    Situation(
        "devices must differ and do not",
        "Constraint",
        "all differ in",
        "help-no-constraint",
        (claim("c", request(count=2), constraints=[{"distinctAttribute": f"{DRIVER}/model"}]), pod()),
    ),
    Situation(
        "devices are tainted",
        "Tainted",
        "4 of the 4 that match are tainted: broken=yes:NoSchedule",
        "help-tolerate-device",
        (everywhere(taints=BROKEN), claim(), pod()),
    ),
    Situation(
        "a rule taints devices",
        "Tainted",
        "by DeviceTaintRule fan",
        "help-tolerate-device",
        (rule(driver=DRIVER), claim(), pod()),
    ),
    Situation(
        "pools are tainted in part",
        "Tainted",
        "2 of the 4 that match are tainted: maintenance:NoSchedule",
        "help-tolerate-device",
        (rule(driver=DRIVER, device="gpu-1"), claim("c", request(count=2)), pod()),
    ),
    Situation(
        "a pool is incomplete",
        "IncompletePool",
        "1 of 2 slices are published",
        "help-pool-again",
        (pool(0, 2), pool(1, 2), claim(), pod()),
    ),
    Situation(
        "a pool publishes a device twice",
        "InvalidPool",
        "device gpu-0 appears in multiple slices",
        "help-pool-again",
        (without_node(1), doubled(0), claim(), pod()),
    ),
    Situation(
        "all devices are asked for while a pool is incomplete",
        "IncompletePool",
        "1 of 2 slices",
        "help-pool-again",
        (without_node(1), pool(0, 2), claim("c", request(allocationMode="All")), pod()),
    ),
    Situation(
        "an invalid pool of another driver, and devices that are taken",
        "AllTaken",
        "all 4 that match are taken",
        "help-end-pods",
        (doubled(0, "other.example.com"), *FULL, claim(), pod()),
    ),
    Situation(
        "no driver",
        "NoDevices",
        "no driver publishes any device",
        None,
        (class_(CLASS, f'device.driver == "{DRIVER}"'), claim(), pod()),
        {"nodes": 1, "devices": 0},
    ),
)

CLAIMS = (
    Situation(
        "a quota of devices is used up",
        "Quota",
        'quota "q" forbids its claim',
        "help-raise-quota",
        (
            quota(**{f"{CLASS}.deviceclass.resource.k8s.io/devices": "1"}),
            template("t", request(count=2)),
            pod(templates=["t"]),
        ),
    ),
    Situation(
        "a quota of claims is used up",
        "Quota",
        "is limited to 1, 1 are used",
        "help-raise-quota",
        (quota(**{"count/resourceclaims.resource.k8s.io": "1"}), claim("x"), template(), pod(templates=["t"])),
    ),
    Situation(
        "a claim is being deleted",
        "ClaimDeleting",
        "is being deleted, used by x",
        "help-claim-again",
        (claim(), runs(pod("x")), deleting("resourceclaims", "c"), pod()),
    ),
    Situation(
        "a shared claim is on a node without room",
        "ClaimElsewhere",
        "is allocated on node-0, where it may not run",
        "help-ask-less",
        (
            claim(),
            runs(pod("x", **ON_0)),
            pod(
                resourceClaims=[{"name": "c0", "resourceClaimName": "c"}],
                containers=[
                    {
                        "name": "main",
                        "image": "app",
                        "resources": {"claims": [{"name": "c0"}], "requests": {"cpu": "100"}},
                    }
                ],
            ),
        ),
    ),
    Situation(
        "a shared claim is on a node that the pod does not want",
        "ClaimElsewhere",
        "on node-0, where it may not run",
        "help-no-node-selector",
        (claim(), runs(pod("x", **ON_0)), pod(nodeSelector={HOSTNAME: "node-1"})),
    ),
    Situation(
        "two shared claims are on different nodes",
        "ClaimsApart",
        "claims b and a are allocated on different nodes",
        "help-own-claim",
        (
            runs(claim("a"), pod("x", claims=["a"], nodeSelector={HOSTNAME: "node-0"})),
            runs(claim("b"), pod("y", claims=["b"], nodeSelector={HOSTNAME: "node-1"})),
            pod(claims=["a", "b"]),
        ),
    ),
    Situation(
        "the claim of a group is short",
        "AllTaken",
        "request r of claim shared needs 1 device",
        "help-end-pods",
        (
            *FULL,
            claim("shared"),
            group({"name": "c0", "resourceClaimName": "shared"}),
            pod(claims=["shared"], **IN_GROUP),
        ),
    ),
    Situation(
        "a pod that was put on its node by hand",
        "ClaimNotAllocated",
        "node node-0 waits for claim c",
        "help-no-node-name",
        (claim(), pod(nodeName="node-0")),
    ),
)

NODES = (
    Situation(
        "nodes are closed",
        "NodeRules",
        "2 node(s) were unschedulable",
        "help-uncordon",
        (both_nodes({"spec": {"unschedulable": True}}), claim(), pod()),
    ),
    Situation(
        "nodes have a taint",
        "NodeRules",
        "untolerated taint {gpu: only}",
        "help-tolerate-node",
        (both_nodes({"spec": {"taints": TAINT}}), claim(), pod()),
    ),
    Situation(
        "no node has so much cpu", "NodeRules", "2 Insufficient cpu", "help-ask-less", (resources({"cpu": "100"}),)
    ),
    Situation(
        "no node has so much memory left",
        "NodeRules",
        "2 Insufficient memory",
        "help-ask-less",
        (
            runs(resources({"memory": "200Gi"}, "x0", **ON_0)),
            runs(resources({"memory": "200Gi"}, "x1", nodeSelector={HOSTNAME: "node-1"})),
            resources({"memory": "100Gi"}),
        ),
    ),
    Situation(
        "labels that no node has",
        "NodeRules",
        "didn't match Pod's node affinity/selector",
        "help-label-node",
        (claim(), pod(nodeSelector={"zone": "mars"})),
    ),
    Situation(
        "a required affinity that no node meets",
        "NodeRules",
        "didn't match Pod's node affinity/selector",
        "help-no-node-selector",
        (claim(), pod(affinity=ZONE)),
    ),
    Situation(
        "labels and cpu that no node has",
        "NodeRules",
        "didn't match Pod's node affinity/selector",
        None,
        (resources({"cpu": "10000"}, nodeSelector={"zone": "mars"}),),
    ),
    Situation(
        "a host port that is taken",
        "NodeRules",
        "didn't have free ports",
        "help-no-host-port",
        (without_node(1), runs(pod("x", containers=PORT)), pod(containers=PORT)),
    ),
    Situation(
        "a node with as many pods as it takes",
        "NodeRules",
        "Too many pods",
        "help-end-pods",
        (without_node(1), node(0, {"status": {"allocatable": {"pods": "1"}}}, "status"), runs(bare("x")), bare()),
    ),
    Situation(
        "pods that must be apart",
        "NodeRules",
        "pod anti-affinity rules",
        "help-no-pod-affinity",
        (without_node(1), runs(bare("x", labels={"app": "x"})), bare(affinity=ANTI)),
    ),
    Situation(
        "a neighbour that does not exist",
        "NodeRules",
        "didn't match pod affinity rules",
        "help-no-pod-affinity",
        (claim(), pod(affinity=NEAR)),
    ),
    Situation(
        "a spread that cannot be kept",
        "NodeRules",
        "topology spread constraints",
        "help-spread-loosely",
        (
            runs(bare("x", labels={"app": "x"}, **ON_0)),
            bare(labels={"app": "x"}, topologySpreadConstraints=[SPREAD], **ON_0),
        ),
    ),
    Situation(
        "a scheduling gate",
        "SchedulingGated",
        "example.com/wait",
        "help-remove-gates",
        (claim(), pod(schedulingGates=[{"name": "example.com/wait"}])),
    ),
    Situation(
        "a scheduler that does not run",
        "NoScheduler",
        "is mine running?",
        "help-use-scheduler",
        (runs(bare("x")), claim(), pod(schedulerName="mine")),
    ),
    Situation("no node at all", "NoNodes", "the cluster has no nodes", None, (bare(),), {"nodes": 0}),
)

AGENT = {"agents": 1, "runtime": "process"}
EXAMPLE = Path(dray.__file__).parent / "examples" / "driver"
PUBLISHED = {
    "apiVersion": API,
    "kind": "ResourceSlice",
    "metadata": {"name": "by-hand"},
    "spec": {
        "driver": DRIVER,
        "nodeName": "agent-0",
        "pool": {"name": "agent-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}],
    },
}


def shell(command: str, **more: Any) -> list[Tree]:
    return [{"name": "main", "image": "app", "command": ["sh", "-c", command], **more}]


def published_by_hand(cluster: Cluster) -> None:
    """Publish a device of a driver that is not there, until the pod has its node: an agent that starts takes it back."""

    def look() -> bool:
        if not cluster.list("resourceslices"):
            cluster.apply(PUBLISHED)
        return bool(cluster.get("pods", "p")["spec"].get("nodeName"))

    wait_until(look)


def dead_node(cluster: Cluster) -> None:
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "dead"}})
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting"}
    cluster.patch("nodes", "dead", {"status": {"conditions": [ready]}}, subresource="status")


def driver_goes_away(cluster: Cluster) -> None:
    """Let a pod run with a device, end the driver, and delete the pod."""
    root = cluster.directory / "nodes" / "agent-0"
    command = [sys.executable, str(EXAMPLE / "driver.py"), "agent-0", str(root)]
    with subprocess.Popen(command, env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}) as driver:
        try:
            for tree in yaml.safe_load_all((EXAMPLE / "pod.yaml").read_text()):
                if tree["kind"] == "Pod":
                    tree["metadata"]["name"] = "p"
                    tree["spec"]["containers"][0]["command"] = ["sleep", "600"]
                cluster.apply(tree)
            wait_until(lambda: phase(cluster, "p") == "Running")
        finally:
            driver.kill()
    cluster.delete("pods", "p", grace=1)


ON_NODES = (
    Situation(
        "a node that is dead",
        "NodeDead",
        "its node dead is not ready: Kubelet stopped posting",
        "help-pod-again",
        (dead_node, bare(nodeName="dead")),
    ),
    Situation(
        "devices whose driver never says that they are ready",
        "DevicesNotReady",
        "its driver has not set condition attached",
        None,
        (everywhere(bindingConditions=["attached"], bindingFailureConditions=["broken"]), claim(), pod()),
    ),
    Situation(
        "a driver that is not on the node",
        "NodeTrouble",
        f"DRA driver {DRIVER} is not registered",
        None,
        (class_(CLASS, f'device.driver == "{DRIVER}"'), claim(), pod(), published_by_hand),
        AGENT,
    ),
    Situation(
        "a deleted pod whose driver has gone",
        "DriverNotThere",
        "driver telescope.example.com, which must unprepare its devices",
        None,
        (driver_goes_away,),
        AGENT,
    ),
    Situation(
        "an init container that fails",
        "ContainerFails",
        "container setup keeps ending with exit code 3",
        None,
        (
            pod(
                initContainers=[{"name": "setup", "image": "app", "command": ["sh", "-c", "exit 3"]}],
                containers=shell("sleep 600"),
            ),
        ),
        AGENT,
    ),
    Situation(
        "an init container that takes its time",
        "Initializing",
        "init container setup runs on agent-0",
        None,
        (
            pod(
                initContainers=[{"name": "setup", "image": "app", "command": ["sleep", "600"]}],
                containers=shell("sleep 600"),
            ),
        ),
        AGENT,
    ),
    Situation(
        "a container that fails",
        "ContainerFails",
        "container main keeps ending with exit code 4",
        None,
        (pod(containers=shell("exit 4")),),
        AGENT,
    ),
    Situation(
        "a probe that fails",
        "NotReady",
        "but is not ready: Readiness probe failed",
        None,
        (pod(containers=shell("sleep 600", readinessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1})),),
        AGENT,
    ),
    Situation(
        "a secret that does not exist",
        "ContainerWaits",
        'secret "key" not found',
        None,
        (
            pod(
                containers=shell(
                    "sleep 600",
                    env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}],
                )
            ),
        ),
        AGENT,
    ),
)

SITUATIONS = NAMES + SELECTORS + NUMBERS + CONSTRAINTS + CLAIMS + NODES + ON_NODES
