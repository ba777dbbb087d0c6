"""Situations in which a pod waits in a real cluster, and what `dray explain` must say of each.

The pod is always `p` in namespace default. Each situation is a list of steps: objects that are created in order, or
functions of the cluster. Two simulated nodes with two devices each, unless it says otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import dray
from dray.api.extended_resources import IMPLICIT_PREFIX
from dray.api.reasons.causes import CauseCode as Code
from dray.api.reasons.suggestions import SuggestionCode as Help
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
    code: Code
    says: str
    helps: Help | None
    steps: tuple[Step, ...]
    options: tuple[str, ...] = ("--nodes", "2", "--devices", "2")


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
        Code.CLASS_MISSING,
        "did you mean gpu.example.com?",
        Help.USE_CLASS,
        (claim("c", request(class_="gpu.exmaple.com")), pod()),
    ),
    Situation(
        "a slip in the name of a class in a template",
        Code.CLASS_MISSING,
        "does not exist",
        Help.USE_CLASS,
        (template("t", request(class_="gpu.exmaple.com")), pod(templates=["t"])),
    ),
    Situation(
        "a class that is gone",
        Code.CLASS_MISSING,
        "device class gpu.example.com does not exist",
        Help.CREATE_CLASS,
        (deleting("deviceclasses", CLASS), claim(), pod()),
    ),
    Situation(
        "a class with a slip in its driver",
        Code.CLASS_MATCHES_NOTHING,
        "class cards matches none of the 4",
        Help.CLASS_SELECTOR,
        (class_("cards", 'device.driver == "gpu.exmaple.com"'), claim("c", request(class_="cards")), pod()),
    ),
    Situation(
        "a class of devices that nobody has",
        Code.CLASS_MATCHES_NOTHING,
        "no device has driver = fpga.example.com",
        None,
        (class_("fpga", 'device.driver == "fpga.example.com"'), claim("c", request(class_="fpga")), pod()),
    ),
    Situation(
        "a slip in the name of a claim",
        Code.CLAIM_MISSING,
        "did you mean training?",
        Help.USE_CLAIM,
        (claim("training"), pod(claims=["trainin"])),
    ),
    Situation(
        "a claim of another namespace",
        Code.CLAIM_MISSING,
        '"c" does not exist',
        Help.COPY_CLAIM,
        (namespace("other"), claim("c", namespace="other"), pod()),
    ),
    Situation("a claim that nobody has", Code.CLAIM_MISSING, '"c" does not exist', None, (pod(),)),
    Situation(
        "a slip in the name of a template",
        Code.TEMPLATE_MISSING,
        "did you mean two-gpus?",
        Help.USE_TEMPLATE,
        (template("two-gpus"), pod(templates=["two-gpu"])),
    ),
    Situation(
        "a template of another namespace",
        Code.TEMPLATE_MISSING,
        '"t" does not exist',
        Help.COPY_TEMPLATE,
        (namespace("other"), template("t", namespace="other"), pod(templates=["t"])),
    ),
    Situation(
        "the name of a template where that of a claim belongs",
        Code.CLAIM_MISSING,
        "there is a ResourceClaimTemplate of that name",
        Help.AS_TEMPLATE,
        (template("t"), pod(claims=["t"])),
    ),
    Situation(
        "the name of a claim where that of a template belongs",
        Code.TEMPLATE_MISSING,
        "there is a ResourceClaim of that name",
        Help.AS_CLAIM,
        (claim("c"), pod(templates=["c"])),
    ),
    Situation(
        "a slip in an extended resource",
        Code.RESOURCE_UNKNOWN,
        "did you mean example.com/gpu?",
        Help.USE_RESOURCE,
        (
            class_("served", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu"),
            resources({"example.com/gpus": "1"}),
        ),
    ),
    Situation(
        "a slip in a class that is asked for as an extended resource",
        Code.RESOURCE_UNKNOWN,
        f"did you mean {IMPLICIT_PREFIX}{CLASS}?",
        Help.USE_RESOURCE,
        (resources({f"{IMPLICIT_PREFIX}gpu.exmaple.com": "1"}),),
    ),
    Situation(
        "an extended resource that nothing serves",
        Code.RESOURCE_UNKNOWN,
        "nothing serves acme.org/tpu",
        None,
        (resources({"acme.org/tpu": "1"}),),
    ),
    Situation(
        "a group that does not exist",
        Code.GROUP_MISSING,
        'podgroup "g" does not exist',
        Help.CREATE_GROUP,
        (claim(), pod(**IN_GROUP)),
    ),
    Situation(
        "a claim that the group does not have",
        Code.GROUP_CLAIM_MISSING,
        "which has no such claim",
        Help.GROUP_CLAIM,
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
        Code.SELECTOR_FAILS,
        "did you mean model?",
        Help.SELECTOR_NAME,
        (wants(f'device.attributes["{DRIVER}"].modle == "a100"'), pod()),
    ),
    Situation(
        "an attribute in the wrong case, guarded",
        Code.ATTRIBUTE_UNKNOWN,
        "did you mean model?",
        Help.SELECTOR_NAME,
        (wants(f'device.attributes["{DRIVER}"].?Model.orValue("") == "a100"'), pod()),
    ),
    Situation(
        "an attribute of another domain",
        Code.ATTRIBUTE_UNKNOWN,
        f'of domain "{DRIVER}"',
        Help.SELECTOR_NAME,
        (wants('device.attributes["gpu.exampl.com"].?model.orValue("") == "a100"'), pod()),
    ),
    Situation(
        "a capacity taken for an attribute",
        Code.ATTRIBUTE_UNKNOWN,
        f'did you mean device.capacity["{DRIVER}"].memory',
        None,
        (wants(f'device.attributes["{DRIVER}"].?memory.orValue("") == "40Gi"'), pod()),
    ),
    Situation(
        "an attribute that not every device has",
        Code.SELECTOR_FAILS,
        "no such key: model",
        Help.SELECTOR_GUARD,
        (changed(0, 0, attributes={"index": {"int": 0}}), wants(MODEL % "a100"), pod()),
    ),
    Situation(
        "a value in the wrong case",
        Code.NO_MATCH,
        "no device has model = A100",
        Help.SELECTOR_VALUE,
        (wants(MODEL % "A100"), pod()),
    ),
    Situation(
        "a slip in the driver that a selector names",
        Code.NO_MATCH,
        "no device has driver = gpu.exmaple.com",
        Help.SELECTOR_VALUE,
        (wants('device.driver == "gpu.exmaple.com"'), pod()),
    ),
    Situation(
        "a value that no device has",
        Code.NO_MATCH,
        "model is a100 on 4",
        Help.SELECTOR_VALUE,
        (wants(MODEL % "h100"), pod()),
    ),
    Situation(
        "a number that no device has",
        Code.NO_MATCH,
        "no device has index = 7",
        Help.SELECTOR_VALUE,
        (wants(f'device.attributes["{DRIVER}"].index == 7'), pod()),
    ),
    Situation(
        "more memory than any device has",
        Code.NO_MATCH,
        "no device has memory ≥ 80Gi",
        Help.SELECTOR_VALUE,
        (wants(MEMORY % "80Gi"), pod()),
    ),
    Situation(
        "a newer driver than any device has",
        Code.NO_MATCH,
        "none of 4",
        Help.SELECTOR_VALUE,
        (wants(f'device.attributes["{DRIVER}"].driverVersion.compareTo(semver("2.0.0")) >= 0'), pod()),
    ),
    Situation(
        "conditions that no device meets together",
        Code.NO_MATCH,
        "no device meets all of it",
        Help.SELECTOR_VALUE,
        (
            everywhere(attributes={"model": {"string": "a100"}, "index": {"int": 5}}),
            changed(0, 0, attributes={"model": {"string": "h100"}, "index": {"int": 0}}),
            wants(f'{MODEL % "h100"} && device.attributes["{DRIVER}"].index == 5'),
            pod(),
        ),
    ),
    Situation(
        "a selector of a class that fails",
        Code.SELECTOR_FAILS,
        "did you mean model?",
        Help.CLASS_SELECTOR,
        (class_("large", f'device.attributes["{DRIVER}"].modle == "a100"'), claim("c", request(class_="large")), pod()),
    ),
)

NUMBERS = (
    Situation(
        "more devices than a node has",
        Code.TOO_FEW_DEVICES,
        "no node that it may use has more than 2",
        Help.FEWER_DEVICES,
        (claim("c", request(count=3)), pod()),
    ),
    Situation(
        "more devices than a node has, in a template",
        Code.TOO_FEW_DEVICES,
        "needs 3 devices on one node",
        Help.FEWER_DEVICES,
        (template("t", request(count=3)), pod(templates=["t"])),
    ),
    Situation(
        "more matching devices than a node has",
        Code.TOO_FEW_DEVICES,
        "at most 1 on one node",
        Help.FEWER_DEVICES,
        (wants(f'device.attributes["{DRIVER}"].index == 0', count=2), pod()),
    ),
    Situation(
        "all devices are taken",
        Code.ALL_TAKEN,
        "all 4 that match are taken",
        Help.MORE_DEVICES,
        (*FULL, claim(), pod()),
    ),
    Situation(
        "some devices are taken and the others tainted",
        Code.ALL_TAKEN,
        "2 of 4 that match are taken, 2 tainted: maintenance:NoSchedule, by DeviceTaintRule fan",
        Help.MORE_DEVICES,
        (holder("x0", 2, "node-0"), rule(driver=DRIVER, pool="node-1"), claim(), pod()),
    ),
    Situation(
        "free devices are spread over nodes",
        Code.FRAGMENTED,
        "2 are free, but spread over 2 nodes",
        Help.MORE_DEVICES,
        (holder("x0", 1, "node-0"), holder("x1", 1, "node-1"), claim("c", request(count=2)), pod()),
    ),
    Situation(
        "the nearest node and not the first is told of",
        Code.ALL_TAKEN,
        "all 2 that match are taken",
        Help.MORE_DEVICES,
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
        Code.ALL_TAKEN,
        "asks for all 2 matching devices",
        Help.END_PODS,
        (holder("x0", 1, "node-0"), holder("x1", 1, "node-1"), claim("c", request(allocationMode="All")), pod()),
    ),
    Situation(
        "an extended resource whose devices are taken",
        Code.ALL_TAKEN,
        "extended resource example.com/gpu",
        Help.MORE_DEVICES,
        (
            class_("served", f'device.driver == "{DRIVER}"', extendedResourceName="example.com/gpu"),
            *FULL,
            resources({"example.com/gpu": "1"}),
        ),
    ),
    Situation(
        "more devices than a claim may have",
        Code.TOO_MANY_DEVICES,
        "exceeds the claim limit of 32",
        Help.FEWER_DEVICES,
        (claim("c", request(count=33)), pod()),
        ("--nodes", "1", "--devices", "40"),
    ),
    Situation(
        "two claims compete",
        Code.CONFLICT,
        "need 4 devices and compete for 2",
        Help.SPLIT,
        (claim("a", request(count=2)), claim("b", request(count=2)), pod(claims=["a", "b"])),
    ),
    Situation(
        "two requests of one claim compete",
        Code.CONFLICT,
        "need 2 devices and compete for 1",
        None,
        (claim("c", request("a", selector=INDEX % 0), request("b", selector=INDEX % 0)), pod()),
    ),
    Situation(
        "the smallest alternative needs the smallest change",
        Code.ALTERNATIVES_SHORT,
        "small: 3 of 4 that match are taken, 1 free",
        Help.MORE_DEVICES,
        (
            holder("x0", 2, "node-0"),
            holder("x1", 1, "node-1"),
            claim("c", alternatives(request("big", count=4), request("small", count=2))),
            pod(),
        ),
    ),
    Situation(
        "no alternative can be served",
        Code.ALTERNATIVES_SHORT,
        "none of the 2 alternatives",
        Help.SELECTOR_VALUE,
        (
            holder("x0", 1, "node-0"),
            holder("x1", 1, "node-1"),
            claim("c", alternatives(request("big", selector=MODEL % "h100"), request("two", count=2))),
            pod(),
        ),
    ),
    Situation(
        "more of a capacity than there is",
        Code.CAPACITY_TOO_LARGE,
        "40Gi in all",
        Help.LESS_CAPACITY,
        (everywhere(**SHAREABLE), capacity("80Gi"), pod()),
    ),
    Situation(
        "capacity that others hold",
        Code.CAPACITY_EXHAUSTED,
        "10Gi left",
        Help.LESS_CAPACITY,
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
        Code.COUNTERS_EXHAUSTED,
        "slice-5 of counter set card",
        Help.END_PODS,
        (
            class_(CLASS, f'device.driver == "{DRIVER}"'),
            partitions,
            runs(claim("x", request(selector=MODEL % "small")), pod("x", claims=["x"])),
            wants(MODEL % "half"),
            pod(),
        ),
        ("--nodes", "1", "--devices", "0"),
    ),
)

CONSTRAINTS = (
    Situation(
        "devices must share a value and do not",
        Code.CONSTRAINT,
        f"share {ROOT}",
        Help.MORE_DEVICES,
        (
            *(changed(n, 1, attributes={ROOT: {"string": "pci-b"}}) for n in (0, 1)),
            claim("c", request(count=2), constraints=[{"matchAttribute": ROOT}]),
            pod(),
        ),
    ),
    Situation(
        "two requests must share a value and do not",
        Code.CONSTRAINT,
        f"share {ROOT}",
        Help.NO_CONSTRAINT,
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
        Code.CONSTRAINT_ATTRIBUTE,
        f"did you mean {ROOT}?",
        Help.CONSTRAINT_NAME,
        (claim("c", request(count=2), constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoots"}]), pod()),
    ),
    Situation(
        "a constraint on an attribute that nobody has",
        Code.CONSTRAINT_ATTRIBUTE,
        "which 0 of 4 devices have",
        Help.NO_CONSTRAINT,
        (claim("c", request(count=2), constraints=[{"matchAttribute": "acme.org/blade"}]), pod()),
    ),
    Situation(
        "devices must differ and do not",
        Code.CONSTRAINT,
        "all differ in",
        Help.NO_CONSTRAINT,
        (claim("c", request(count=2), constraints=[{"distinctAttribute": f"{DRIVER}/model"}]), pod()),
    ),
    Situation(
        "devices are tainted",
        Code.TAINTED,
        "4 of the 4 that match are tainted: broken=yes:NoSchedule",
        Help.TOLERATE_DEVICE,
        (everywhere(taints=BROKEN), claim(), pod()),
    ),
    Situation(
        "a rule taints devices",
        Code.TAINTED,
        "by DeviceTaintRule fan",
        Help.TOLERATE_DEVICE,
        (rule(driver=DRIVER), claim(), pod()),
    ),
    Situation(
        "pools are tainted in part",
        Code.TAINTED,
        "2 of the 4 that match are tainted: maintenance:NoSchedule",
        Help.TOLERATE_DEVICE,
        (rule(driver=DRIVER, device="gpu-1"), claim("c", request(count=2)), pod()),
    ),
    Situation(
        "a pool is incomplete",
        Code.POOL_INCOMPLETE,
        "1 of 2 slices are published",
        Help.POOL_AGAIN,
        (pool(0, 2), pool(1, 2), claim(), pod()),
    ),
    Situation(
        "a pool publishes a device twice",
        Code.POOL_INVALID,
        "device gpu-0 appears in multiple slices",
        Help.POOL_AGAIN,
        (without_node(1), doubled(0), claim(), pod()),
    ),
    Situation(
        "all devices are asked for while a pool is incomplete",
        Code.POOL_INCOMPLETE,
        "1 of 2 slices",
        Help.POOL_AGAIN,
        (without_node(1), pool(0, 2), claim("c", request(allocationMode="All")), pod()),
    ),
    Situation(
        "an invalid pool of another driver, and devices that are taken",
        Code.ALL_TAKEN,
        "all 4 that match are taken",
        Help.MORE_DEVICES,
        (doubled(0, "other.example.com"), *FULL, claim(), pod()),
    ),
    Situation(
        "no driver",
        Code.NO_DEVICES,
        "no driver publishes any device",
        None,
        (class_(CLASS, f'device.driver == "{DRIVER}"'), claim(), pod()),
        ("--nodes", "1", "--devices", "0"),
    ),
)

CLAIMS = (
    Situation(
        "a quota of devices is used up",
        Code.QUOTA,
        'quota "q" forbids its claim',
        Help.RAISE_QUOTA,
        (
            quota(**{f"{CLASS}.deviceclass.resource.k8s.io/devices": "1"}),
            template("t", request(count=2)),
            pod(templates=["t"]),
        ),
    ),
    Situation(
        "a quota of claims is used up",
        Code.QUOTA,
        "is limited to 1, 1 are used",
        Help.RAISE_QUOTA,
        (quota(**{"count/resourceclaims.resource.k8s.io": "1"}), claim("x"), template(), pod(templates=["t"])),
    ),
    Situation(
        "a claim is being deleted",
        Code.CLAIM_DELETING,
        "is being deleted, used by x",
        Help.CLAIM_AGAIN,
        (claim(), runs(pod("x")), deleting("resourceclaims", "c"), pod()),
    ),
    Situation(
        "a shared claim is on a node without room",
        Code.CLAIM_ELSEWHERE,
        "is allocated on node-0, where it may not run",
        Help.ASK_LESS,
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
        Code.CLAIM_ELSEWHERE,
        "on node-0, where it may not run",
        Help.NO_NODE_SELECTOR,
        (claim(), runs(pod("x", **ON_0)), pod(nodeSelector={HOSTNAME: "node-1"})),
    ),
    Situation(
        "two shared claims are on different nodes",
        Code.CLAIMS_APART,
        "claims b and a are allocated on different nodes",
        Help.OWN_CLAIM,
        (
            runs(claim("a"), pod("x", claims=["a"], nodeSelector={HOSTNAME: "node-0"})),
            runs(claim("b"), pod("y", claims=["b"], nodeSelector={HOSTNAME: "node-1"})),
            pod(claims=["a", "b"]),
        ),
    ),
    Situation(
        "the claim of a group is short",
        Code.ALL_TAKEN,
        "request r of claim shared needs 1 device",
        Help.MORE_DEVICES,
        (
            *FULL,
            claim("shared"),
            group({"name": "c0", "resourceClaimName": "shared"}),
            pod(claims=["shared"], **IN_GROUP),
        ),
    ),
    Situation(
        "a pod that was put on its node by hand",
        Code.CLAIM_NOT_ALLOCATED,
        "node node-0 waits for claim c",
        Help.NO_NODE_NAME,
        (claim(), pod(nodeName="node-0")),
    ),
)

NODES = (
    Situation(
        "nodes are closed",
        Code.NODE_RULES,
        "2 node(s) were unschedulable",
        Help.UNCORDON,
        (both_nodes({"spec": {"unschedulable": True}}), claim(), pod()),
    ),
    Situation(
        "nodes have a taint",
        Code.NODE_RULES,
        "untolerated taint {gpu: only}",
        Help.TOLERATE_NODE,
        (both_nodes({"spec": {"taints": TAINT}}), claim(), pod()),
    ),
    Situation(
        "no node has so much cpu", Code.NODE_RULES, "2 Insufficient cpu", Help.ASK_LESS, (resources({"cpu": "100"}),)
    ),
    Situation(
        "no node has so much memory left",
        Code.NODE_RULES,
        "2 Insufficient memory",
        Help.ASK_LESS,
        (
            runs(resources({"memory": "200Gi"}, "x0", **ON_0)),
            runs(resources({"memory": "200Gi"}, "x1", nodeSelector={HOSTNAME: "node-1"})),
            resources({"memory": "100Gi"}),
        ),
    ),
    Situation(
        "labels that no node has",
        Code.NODE_RULES,
        "didn't match Pod's node affinity/selector",
        Help.LABEL_NODE,
        (claim(), pod(nodeSelector={"zone": "mars"})),
    ),
    Situation(
        "a required affinity that no node meets",
        Code.NODE_RULES,
        "didn't match Pod's node affinity/selector",
        Help.NO_NODE_SELECTOR,
        (claim(), pod(affinity=ZONE)),
    ),
    Situation(
        "labels and cpu that no node has",
        Code.NODE_RULES,
        "didn't match Pod's node affinity/selector",
        None,
        (resources({"cpu": "10000"}, nodeSelector={"zone": "mars"}),),
    ),
    Situation(
        "a host port that is taken",
        Code.NODE_RULES,
        "didn't have free ports",
        Help.NO_HOST_PORT,
        (without_node(1), runs(pod("x", containers=PORT)), pod(containers=PORT)),
    ),
    Situation(
        "a node with as many pods as it takes",
        Code.NODE_RULES,
        "Too many pods",
        Help.END_PODS,
        (without_node(1), node(0, {"status": {"allocatable": {"pods": "1"}}}, "status"), runs(bare("x")), bare()),
    ),
    Situation(
        "pods that must be apart",
        Code.NODE_RULES,
        "pod anti-affinity rules",
        Help.NO_POD_AFFINITY,
        (without_node(1), runs(bare("x", labels={"app": "x"})), bare(affinity=ANTI)),
    ),
    Situation(
        "a neighbour that does not exist",
        Code.NODE_RULES,
        "didn't match pod affinity rules",
        Help.NO_POD_AFFINITY,
        (claim(), pod(affinity=NEAR)),
    ),
    Situation(
        "a spread that cannot be kept",
        Code.NODE_RULES,
        "topology spread constraints",
        Help.SPREAD_LOOSELY,
        (
            runs(bare("x", labels={"app": "x"}, **ON_0)),
            bare(labels={"app": "x"}, topologySpreadConstraints=[SPREAD], **ON_0),
        ),
    ),
    Situation(
        "a scheduling gate",
        Code.SCHEDULING_GATED,
        "example.com/wait",
        Help.REMOVE_GATES,
        (claim(), pod(schedulingGates=[{"name": "example.com/wait"}])),
    ),
    Situation(
        "a scheduler that does not run",
        Code.NO_SCHEDULER,
        "does mine run?",
        Help.USE_SCHEDULER,
        (runs(bare("x")), claim(), pod(schedulerName="mine")),
    ),
    Situation("no node at all", Code.NO_NODES, "the cluster has no nodes", None, (bare(),), ("--nodes", "0")),
)

AGENT = ("--agents", "1", "--runtime", "process")
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
        Code.NODE_DEAD,
        "its node dead is not ready: Kubelet stopped posting",
        Help.POD_AGAIN,
        (dead_node, bare(nodeName="dead")),
    ),
    Situation(
        "devices whose driver never says that they are ready",
        Code.DEVICES_NOT_READY,
        "its driver has not set condition attached",
        None,
        (everywhere(bindingConditions=["attached"], bindingFailureConditions=["broken"]), claim(), pod()),
    ),
    Situation(
        "a driver that is not on the node",
        Code.NODE_TROUBLE,
        f"DRA driver {DRIVER} is not registered",
        None,
        (class_(CLASS, f'device.driver == "{DRIVER}"'), claim(), pod(), published_by_hand),
        AGENT,
    ),
    Situation(
        "a deleted pod whose driver has gone",
        Code.DELETING_NOT_UNPREPARED,
        "driver telescope.example.com, which must unprepare its devices",
        None,
        (driver_goes_away,),
        AGENT,
    ),
    Situation(
        "an init container that fails",
        Code.CONTAINER_FAILS,
        "container setup ends with exit code 3",
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
        Code.INITIALIZING,
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
        Code.CONTAINER_FAILS,
        "container main ends with exit code 4",
        None,
        (pod(containers=shell("exit 4")),),
        AGENT,
    ),
    Situation(
        "a probe that fails",
        Code.NOT_READY,
        "but is not ready: Readiness probe failed",
        None,
        (pod(containers=shell("sleep 600", readinessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1})),),
        AGENT,
    ),
    Situation(
        "a secret that does not exist",
        Code.CONTAINER_WAITS,
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
