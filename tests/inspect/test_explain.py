"""Situations in which something waits: the first line must name the true cause."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from dray.api.reasons.nodes import NodeCode
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourcePoolStatusRequest, ResourceSlice
from dray.inspect.explain import NotThere, explain_claim, explain_group, explain_pod, explain_request
from dray.inspect.layout import text_of
from dray.inspect.placement import Allowance
from dray.inspect.snapshot import Snapshot
from tests.allocator.building import slowly
from tests.inspect.objects import (
    DRIVER,
    MEMORY,
    MODEL,
    claim,
    class_,
    device,
    event,
    gpus,
    group,
    held,
    node,
    pod,
    quota,
    rule,
    shared,
    taint,
    template,
    wants,
)


class Situation(NamedTuple):
    """Objects, the pod `p` among them, and what the first line must say."""

    name: str
    objects: tuple[Any, ...]
    code: str
    says: tuple[str, ...]


CLUSTER = (node("n1"), node("n2"), class_(), gpus("n1"), gpus("n2"))
FROM_TEMPLATE = {"name": "t", "resourceClaimTemplateName": "t"}
FULL_N1 = held("x1", "gpu-0", "gpu-1")
FULL_N2 = held("x2", "gpu-0", "gpu-1", node="n2", by=("trainer",))


def extended(resource: str) -> dict[str, Any]:
    """A container that asks for an extended resource."""
    return {"containers": [{"name": "c", "image": "app", "resources": {"requests": {resource: "1"}}}]}


def serving(resource: str) -> DeviceClass:
    served = class_()
    return msgspec.structs.replace(served, spec=msgspec.structs.replace(served.spec, extendedResourceName=resource))


def attaching(**conditions: str) -> ResourceClaim:
    """A claim that is allocated to the pod, and what its driver says of the device."""
    tree = msgspec.to_builtins(held("c", "gpu-0", by=("p",)))
    [result] = tree["status"]["allocation"]["devices"]["results"]
    result |= {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    told = [{"type": kind, "status": "True", "reason": "Cable", "message": why} for kind, why in conditions.items()]
    tree["status"]["devices"] = [{"driver": DRIVER, "pool": "n1", "device": "gpu-0", "conditions": told}]
    return msgspec.convert(tree, ResourceClaim)


def limited(value: str, most: str) -> dict[str, Any]:
    return {"value": value, "requestPolicy": {"default": most, "validRange": {"min": "1Gi", "max": most}}}


def partition(name: str, model: str, *slices: int) -> dict[str, Any]:
    counters = {f"slice-{at}": {"value": "1"} for at in slices}
    return device(name, model=model, consumesCounters=[{"counterSet": "gpu-1", "counters": counters}])


PARTITIONED = (
    node("n1"),
    class_(),
    gpus(
        "n1",
        0,
        name="counters",
        of=2,
        sharedCounters=[{"name": "gpu-1", "counters": {f"slice-{at}": {"value": "1"} for at in range(8)}}],
    ),
    gpus("n1", [partition("3g-4", "3g", 4, 5, 6, 7), partition("1g-5", "1g", 5)], of=2),
)

SITUATIONS = (
    Situation(
        "an extended resource that nothing serves",
        (*CLUSTER, serving("example.com/gpu"), pod(claims=(), **extended("example.com/gpus"))),
        "NoSuchResource",
        ("nothing serves example.com/gpus", "did you mean example.com/gpu?"),
    ),
    Situation(
        "an extended resource whose devices are taken",
        (*CLUSTER, serving("example.com/gpu"), FULL_N1, FULL_N2, pod(claims=(), **extended("example.com/gpu"))),
        "AllTaken",
        ("extended resource example.com/gpu", "all 4 that match are taken"),
    ),
    Situation(
        "a device that its driver has not made ready",
        (*CLUSTER, attaching(), pod()),
        "DevicesNotReady",
        (f"device {DRIVER}/n1/gpu-0 of claim c is not ready", "has not set condition attached"),
    ),
    Situation(
        "a device that is not ready, on a node that has no room for the pod",
        (node("n1", cpu="0"), *CLUSTER[1:], attaching(), pod(cpu="1")),
        "ClaimElsewhere",
        ('claim "c" is allocated on n1', "Insufficient cpu"),
    ),
    Situation(
        "a device that its driver could not make ready",
        (*CLUSTER, attaching(broken="it is loose"), pod()),
        "DevicesFailed",
        ("could not be made ready: condition broken (Cable): it is loose",),
    ),
    Situation("a claim that does not exist", (*CLUSTER, pod()), "ClaimMissing", ('resourceclaim "c" does not exist',)),
    Situation(
        "a slip in the name of a claim",
        (*CLUSTER, claim("training"), pod(claims=("trainin",))),
        "ClaimMissing",
        ('"trainin" does not exist, did you mean training?',),
    ),
    Situation(
        "a template that does not exist",
        (*CLUSTER, template("other"), pod(claims=(FROM_TEMPLATE,))),
        "TemplateMissing",
        ('resourceclaimtemplate "t" does not exist',),
    ),
    Situation(
        "nobody makes claims from templates",
        (*CLUSTER, template(), pod(claims=(FROM_TEMPLATE,))),
        "NoClaimController",
        ("the claim for entry t has not been created", "is the claim controller running?"),
    ),
    Situation(
        "a quota of devices is used up",
        (
            *CLUSTER,
            template("t", wants(3)),
            quota({"gpu.deviceclass.resource.k8s.io/devices": "4"}, {"gpu.deviceclass.resource.k8s.io/devices": "2"}),
            pod(claims=(FROM_TEMPLATE,)),
        ),
        "Quota",
        ('quota "q" forbids its claim', "limited to 4, 2 are used and 3 asked for"),
    ),
    Situation(
        "a quota of claims is used up",
        (
            *CLUSTER,
            template(),
            quota({"count/resourceclaims.resource.k8s.io": "1"}, {"count/resourceclaims.resource.k8s.io": "1"}),
            pod(claims=(FROM_TEMPLATE,)),
        ),
        "Quota",
        ("count/resourceclaims.resource.k8s.io is limited to 1",),
    ),
    Situation(
        "the server refuses the claim of a template",
        (
            *CLUSTER,
            template(),
            event("FailedResourceClaimCreation", "PodResourceClaim t: admission denied"),
            pod(claims=(FROM_TEMPLATE,)),
        ),
        "ClaimRefused",
        ("admission denied",),
    ),
    Situation(
        "a class that does not exist",
        (*CLUSTER, claim("c", wants(device_class="gpus")), pod()),
        "ClassMissing",
        ("request r of claim c: device class gpus does not exist, did you mean gpu?",),
    ),
    Situation(
        "a class that matches nothing",
        (
            *CLUSTER,
            class_("fpga", 'device.driver == "fpga.example.com"'),
            claim("c", wants(device_class="fpga")),
            pod(),
        ),
        "ClassMatchesNothing",
        ("class fpga matches none of the 4 that are published", "no device has driver = fpga.example.com"),
    ),
    Situation(
        "a slip in the name of an attribute",
        (*CLUSTER, claim("c", wants(1, MODEL % ("modle", "a100"))), pod()),
        "SelectorFails",
        ("selector #0", "no such key: modle", "attribute modle exists on 0 of 4 devices, did you mean model?"),
    ),
    Situation(
        "an attribute in the wrong case, guarded",
        (*CLUSTER, claim("c", wants(1, f'device.attributes["{DRIVER}"].?Model.orValue("") == "a100"')), pod()),
        "UnknownAttribute",
        ("attribute Model exists on 0 of 4 devices, did you mean model?",),
    ),
    Situation(
        "an attribute of another domain",
        (*CLUSTER, claim("c", wants(1, 'device.attributes["gpu.exampl.com"].?model.orValue("") == "a100"')), pod()),
        "UnknownAttribute",
        ('attribute model exists on 0 of 4 devices, did you mean attribute model of domain "gpu.example.com"?',),
    ),
    Situation(
        "a capacity taken for an attribute",
        (*CLUSTER, claim("c", wants(1, f'device.attributes["{DRIVER}"].?memory.orValue("") == "40Gi"')), pod()),
        "UnknownAttribute",
        (f'did you mean device.capacity["{DRIVER}"].memory?',),
    ),
    Situation(
        "a selector that fails on some devices",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a"), {**device("b"), "attributes": {}}]),
            held("x", "a"),
            claim("c", wants(1, MODEL % ("model", "h100"))),
            pod(),
        ),
        "SelectorFails",
        (f"selector #0 on device {DRIVER}/n1/b: CEL runtime error: no such key: model",),
    ),
    Situation(
        "a value that no device has",
        (*CLUSTER, claim("c", wants(1, MODEL % ("model", "h100"))), pod()),
        "NoMatch",
        ("selector #0 matches none of 4: no device has model = h100; model is a100 on 4",),
    ),
    Situation(
        "more memory than any device has",
        (*CLUSTER, claim("c", wants(2, MEMORY % "80Gi")), pod()),
        "NoMatch",
        ("no device has memory ≥ 80Gi; memory is 40Gi on 4",),
    ),
    Situation(
        "conditions that no device meets together",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", model="h100", memory="40Gi"), device("b", model="a100", memory="80Gi")]),
            claim("c", wants(1, f"{MODEL % ('model', 'h100')} && {MEMORY % '80Gi'}")),
            pod(),
        ),
        "NoMatch",
        ("no device meets all of it: model = h100 on 1, memory ≥ 80Gi on 1",),
    ),
    Situation(
        "no driver",
        (node("n1"), class_(), claim(), pod()),
        "NoDevices",
        ("no driver publishes any device",),
    ),
    Situation(
        "more devices than a node has",
        (*CLUSTER, claim("c", wants(3)), pod()),
        "TooFewDevices",
        ("needs 3 devices on one node, and no node that it may use has more than 2",),
    ),
    Situation(
        "more matching devices than a node has",
        (
            node("n1"),
            node("n2"),
            class_(),
            *(gpus(n, [device("a"), device("b", model="h100"), device("c")]) for n in ("n1", "n2")),
            claim("c", wants(2, MODEL % ("model", "h100"))),
            pod(),
        ),
        "TooFewDevices",
        ("needs 2 devices on one node, and at most 1 on one node (n1) match selector #0",),
    ),
    Situation(
        "all devices are taken",
        (*CLUSTER, FULL_N1, FULL_N2, claim(), pod()),
        "AllTaken",
        ("request r of claim c needs 1 device, and all 4 that match are taken",),
    ),
    Situation(
        "free devices are spread over nodes",
        (*CLUSTER, held("x1", "gpu-0"), held("x2", "gpu-1", node="n2"), claim("c", wants(2)), pod()),
        "Fragmented",
        ("needs 2 devices on one node: 2 are free, but spread over 2 nodes, at most 1 on one (n1)",),
    ),
    Situation(
        "all devices of a node are asked for and one is taken",
        (
            node("n1"),
            class_(),
            gpus("n1", 3),
            held("x", "gpu-1"),
            claim("c", wants(0, allocationMode="All")),
            pod(),
        ),
        "NotAllFree",
        ("asks for all 3 matching devices of a node, and at most 2 are free (n1)",),
    ),
    Situation(
        "devices must share a value and do not",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", root="r0"), device("b", root="r1")]),
            claim("c", wants(2), constraints=[{"matchAttribute": "example.com/root"}]),
            pod(),
        ),
        "Constraint",
        (
            "request r of claim c needs 2 devices that share example.com/root: of those that are free, at most 1 on one node (n1)",
        ),
    ),
    Situation(
        "two requests must share a value and do not",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", model="a100", root="r0"), device("b", model="h100", root="r1")]),
            claim(
                "c",
                wants(1, MODEL % ("model", "a100"), name="small"),
                wants(1, MODEL % ("model", "h100"), name="large"),
                constraints=[{"matchAttribute": "example.com/root"}],
            ),
            pod(),
        ),
        "Constraint",
        ("requests small, large of claim c need 2 devices that share example.com/root",),
    ),
    Situation(
        "a constraint on an attribute that no device has",
        (*CLUSTER, claim("c", wants(2), constraints=[{"matchAttribute": "example.com/roots"}]), pod()),
        "ConstraintAttribute",
        ("share example.com/roots, which 0 of 4 devices have, did you mean example.com/root?",),
    ),
    Situation(
        "devices must differ and do not",
        (*CLUSTER, claim("c", wants(2), constraints=[{"distinctAttribute": f"{DRIVER}/model"}]), pod()),
        "Constraint",
        (f"needs 2 devices that all differ in {DRIVER}/model: at most 1 values are free",),
    ),
    Situation(
        "devices are tainted",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", taints=[taint()]), device("b", taints=[taint()])]),
            claim(),
            pod(),
        ),
        "Tainted",
        ("2 of the 2 that match are tainted: broken=yes:NoSchedule",),
    ),
    Situation(
        "a rule taints devices",
        (*CLUSTER, rule(driver=DRIVER), claim(), pod()),
        "Tainted",
        ("4 of the 4 that match are tainted: maintenance:NoSchedule, by DeviceTaintRule maintenance",),
    ),
    Situation(
        "a pool is incomplete",
        (node("n1"), class_(), gpus("n1", of=2), claim(), pod()),
        "IncompletePool",
        (f"pool n1 of driver {DRIVER} cannot be used: incomplete: 1 of 2 slices are published",),
    ),
    Situation(
        "a pool publishes a device twice",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a")], name="s1", of=2),
            gpus("n1", [device("a")], name="s2", of=2),
            claim(),
            pod(),
        ),
        "InvalidPool",
        ("cannot be used: device a appears in multiple slices",),
    ),
    Situation(
        "all devices are asked for while a pool is incomplete",
        (node("n1"), class_(), gpus("n1", of=2), claim("c", wants(0, allocationMode="All")), pod()),
        "IncompletePool",
        ("1 of 2 slices are published",),
    ),
    Situation(
        "no alternative can be served",
        (
            *CLUSTER,
            FULL_N1,
            FULL_N2,
            claim(
                "c",
                {
                    "name": "r",
                    "firstAvailable": [
                        {
                            "name": "big",
                            "deviceClassName": "gpu",
                            "allocationMode": "ExactCount",
                            "count": 1,
                            "selectors": [{"cel": {"expression": MODEL % ("model", "h100")}}],
                        },
                        {"name": "any", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                    ],
                },
            ),
            pod(),
        ),
        "AlternativesShort",
        (
            "none of the 2 alternatives of request r of claim c can be served",
            "big: selector #0 matches none of 4",
            "any: all 4 that match are taken",
        ),
    ),
    Situation(
        "a shared claim is on a node without room",
        (
            *CLUSTER,
            held("c", "gpu-0"),
            pod("other", cpu="8", nodeName="n1", claims=(), status={"phase": "Running"}),
            pod(),
        ),
        "ClaimElsewhere",
        ('claim "c" is allocated on n1, where it may not run: 1 Insufficient cpu',),
    ),
    Situation(
        "a shared claim is on a node that the pod does not want",
        (*CLUSTER, held("c", "gpu-0"), pod(nodeSelector={"kubernetes.io/hostname": "n2"})),
        "ClaimElsewhere",
        ("claim \"c\" is allocated on n1, where it may not run: 1 node(s) didn't match Pod's node affinity/selector",),
    ),
    Situation(
        "a shared claim is on a node that is gone",
        (node("n2"), class_(), held("c", "gpu-0"), pod()),
        "ClaimOutOfReach",
        ('claim "c" is allocated where no node can reach it',),
    ),
    Situation(
        "a shared claim is full",
        (*CLUSTER, held("c", "gpu-0", by=[f"other-{i}" for i in range(256)]), pod()),
        "ClaimFull",
        ('resourceclaim "c" is in use by 256 consumers',),
    ),
    Situation(
        "a claim is being deleted",
        (*CLUSTER, claim("c", deletionTimestamp="2026-01-01T00:00:00Z"), pod()),
        "ClaimDeleting",
        ('resourceclaim "c" is being deleted',),
    ),
    Situation(
        "a generated claim belongs to an earlier pod",
        (
            *CLUSTER,
            template(),
            claim("p-t-abcde"),
            pod(
                claims=(FROM_TEMPLATE,),
                status={"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "p-t-abcde"}]},
            ),
        ),
        "ForeignClaim",
        ('resourceclaim "p-t-abcde" was not created for it',),
    ),
    Situation(
        "two claims compete",
        (node("n1"), class_(), gpus("n1", 3), claim("a", wants(2)), claim("b", wants(2)), pod(claims=("a", "b"))),
        "Conflict",
        (
            "requests r of claim a and r of claim b cannot be served together on one node",
            "need 4 devices and compete for 3",
        ),
    ),
    Situation(
        "two claims that each find enough are refused together",
        (
            node("n1"),
            class_(),
            gpus("n1"),
            claim("a", wants(0, allocationMode="All", adminAccess=True)),
            claim("b", wants(0, allocationMode="All")),
            pod(claims=("a", "b")),
        ),
        "NoCombination",
        (
            "each request finds enough devices on n1",
            "no choice of devices serves all of them at once: r of claim a, r of claim b",
        ),
    ),
    Situation(
        "lists that overlap",
        (
            node("n1"),
            class_(),
            gpus("n1", [device(f"gpu-{i}", attributes={"tags": {"strings": ["a", f"b{i}"]}}) for i in range(2)]),
            claim("c", wants(2), constraints=[{"distinctAttribute": f"{DRIVER}/tags"}]),
            pod(),
        ),
        "NoCombination",
        ("request r of claim c cannot be served within its constraints",),
    ),
    Situation(
        "more devices than a claim may have",
        (node("n1"), class_(), gpus("n1", 40), claim("c", wants(33)), pod()),
        "TooManyDevices",
        ("number of requested devices 33 exceeds the claim limit of 32",),
    ),
    Situation(
        "the devices are where the pod may not run",
        (node("n1", unschedulable=True), node("n2"), class_(), gpus("n1"), claim(), pod()),
        "NodeRules",
        ("its devices are on n1, where it may not run: 1 node(s) were unschedulable",),
    ),
    Situation(
        "the nodes with devices have a taint",
        (
            node("n1", taints=[{"key": "gpu", "value": "only", "effect": "NoSchedule"}]),
            node("n2"),
            class_(),
            gpus("n1"),
            claim(),
            pod(),
        ),
        "NodeRules",
        ("its devices are on n1, where it may not run: 1 node(s) had untolerated taint {gpu: only}",),
    ),
    Situation(
        "no node has enough memory or cpu",
        (*CLUSTER, claim(), pod(cpu="64")),
        "NodeRules",
        ("its devices are on n1, n2, where it may not run: 2 Insufficient cpu",),
    ),
    Situation(
        "no node takes a pod without claims",
        (*CLUSTER, pod(claims=(), nodeSelector={"zone": "b"})),
        "NodeRules",
        ("no node accepts it: 2 node(s) didn't match Pod's node affinity/selector",),
    ),
    Situation("no node at all", (class_(), claim(), pod()), "NoNodes", ("the cluster has no nodes",)),
    Situation(
        "a scheduling gate",
        (*CLUSTER, claim(), pod(schedulingGates=[{"name": "example.com/wait"}])),
        "SchedulingGated",
        ("its scheduling gates hold it back: example.com/wait",),
    ),
    Situation(
        "a group that does not exist",
        (*CLUSTER, claim(), pod(schedulingGroup={"podGroupName": "g"})),
        "GroupMissing",
        ('its podgroup "g" does not exist',),
    ),
    Situation(
        "a group without the claim that a pod names",
        (
            *CLUSTER,
            group(),
            pod(
                claims=({"name": "x", "podGroupResourceClaim": "shared"},),
                workloadRef={"name": "w", "podGroupName": "g"},
            ),
        ),
        "GroupClaimMissing",
        ('names claim "shared" of podgroup "g", which has no such claim',),
    ),
    Situation(
        "the claim of a group was not made",
        (
            *CLUSTER,
            template(),
            group(claims=[{"name": "t", "resourceClaimTemplateName": "t"}]),
            pod(claims=(FROM_TEMPLATE,), schedulingGroup={"podGroupName": "g"}),
        ),
        "NoClaimController",
        ('has not been created for podgroup "g"',),
    ),
    Situation(
        "the claim of a group is short",
        (
            *CLUSTER,
            FULL_N1,
            FULL_N2,
            claim("shared"),
            group(claims=[{"name": "c", "resourceClaimName": "shared"}]),
            pod(claims=({"name": "c", "resourceClaimName": "shared"},), schedulingGroup={"podGroupName": "g"}),
        ),
        "AllTaken",
        ("request r of claim shared needs 1 device, and all 4 that match are taken",),
    ),
    Situation(
        "a group whose pods are not all there",
        (*CLUSTER, claim(), group(gang=3), pod(schedulingGroup={"podGroupName": "g"})),
        "GangIncomplete",
        ('podgroup "g" waits for 3 pods, and 1 exist',),
    ),
    Situation(
        "a group that does not exist, of a pod without claims",
        (*CLUSTER, pod(claims=(), schedulingGroup={"podGroupName": "g"})),
        "GroupMissing",
        ('its podgroup "g" does not exist',),
    ),
    Situation(
        "a gang that does not fit as a whole, although the pod would fit alone",
        (
            *CLUSTER,
            claim(),
            group(gang=2),
            pod(schedulingGroup={"podGroupName": "g"}),
            pod("other", claims=(), schedulingGroup={"podGroupName": "g"}, nodeSelector={"disk": "none"}),
        ),
        "GangUnplaced",
        ('podgroup "g" has no place for 2 pods at once: minCount (2) cannot be satisfied: ', "Pod other: "),
    ),
    Situation(
        "no scheduler",
        (*CLUSTER, claim(), pod(schedulerName="mine")),
        "NoScheduler",
        ("it fits on n1, n2, but no scheduler has tried it: is mine running?",),
    ),
    Situation(
        "it fits by now",
        (
            *CLUSTER,
            claim(),
            pod(status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}),
        ),
        "WillBeTried",
        ("it fits on n1, n2 by now",),
    ),
    Situation(
        "the node cannot prepare its devices",
        (
            *CLUSTER,
            held("c", "gpu-0", by=("p",)),
            event("FailedPrepareDynamicResources", "DRA driver gpu.example.com is not registered"),
            pod(nodeName="n1"),
        ),
        "NodeTrouble",
        ("node n1 cannot start it: DRA driver gpu.example.com is not registered",),
    ),
    Situation(
        "a driver whose message a terminal would obey",
        (
            *CLUSTER,
            held("c", "gpu-0", by=("p",)),
            event("FailedPrepareDynamicResources", "no \x1b[31mfirmware\x1b]0;title\x07 \x9b2J\x00"),
            pod(nodeName="n1"),
        ),
        "NodeTrouble",
        ("node n1 cannot start it: no \\x1b[31mfirmware\\x1b]0;title\\x07 \\x9b2J\\x00",),
    ),
    Situation(
        "a pod put on a node by hand, without its claim",
        (*CLUSTER, claim(), pod(nodeName="n1")),
        "ClaimNotAllocated",
        ("node n1 waits for claim c, which is not allocated",),
    ),
    Situation(
        "a pod on a node whose claim is others'",
        (*CLUSTER, held("c", "gpu-0"), pod(nodeName="n1")),
        "NotReserved",
        ("claim c is not reserved for the pod",),
    ),
    Situation(
        "a node that is gone",
        (class_(), held("c", "gpu-0", by=("p",)), pod(nodeName="n9")),
        "NodeMissing",
        ("its node n9",),
    ),
    Situation(
        "an invalid pool of another driver, and devices that are taken",
        (
            node("n1"),
            class_(),
            gpus("n1"),
            gpus("n1", [device("a")], name="s1", driver="other.example.com", of=2),
            gpus("n1", [device("a")], name="s2", driver="other.example.com", of=2),
            FULL_N1,
            claim(),
            pod(),
        ),
        "AllTaken",
        ("needs 1 device, and all 2 that match are taken",),
    ),
    Situation(
        "a shared device without enough capacity left",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", allowMultipleAllocations=True)]),
            shared("x", "a", memory="30Gi"),
            claim("c", wants(1, capacity={"requests": {"memory": "20Gi"}})),
            pod(),
        ),
        "CapacityExhausted",
        (
            "none on a node that it may use with enough capacity left",
            "a needs 20Gi of memory, 10Gi left (default/x holds 30Gi)",
        ),
    ),
    Situation(
        "a request for more than one request may have of a device",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", allowMultipleAllocations=True, capacity={"memory": limited("40Gi", "8Gi")})]),
            claim("c", wants(1, capacity={"requests": {"memory": "20Gi"}})),
            pod(),
        ),
        "CapacityTooLarge",
        ("a needs 20Gi of memory, 8Gi at most for one request",),
    ),
    Situation(
        "a request for more than there is of any device",
        (
            node("n1"),
            class_(),
            gpus("n1", [device("a", allowMultipleAllocations=True)]),
            claim("c", wants(1, capacity={"requests": {"memory": "80Gi"}})),
            pod(),
        ),
        "CapacityTooLarge",
        ("a needs 80Gi of memory, 40Gi in all",),
    ),
    Situation(
        "a partition whose memory slice another one holds",
        (*PARTITIONED, held("nb-0", "1g-5", by=("nb",)), claim("c", wants(1, MODEL % ("model", "3g"))), pod()),
        "CountersExhausted",
        ("3g-4 needs 1 of slice-5 of counter set gpu-1, 0 left (default/nb-0 holds 1)",),
    ),
    Situation(
        "a selector fails on one node, and another one would do",
        (
            node("n1"),
            node("n2"),
            class_(),
            gpus("n1", [device("a", attributes={})]),
            gpus("n2"),
            claim("c", wants(1, MODEL % ("model", "a100"))),
            pod(),
        ),
        "SelectorFails",
        ("selector #0 on device gpu.example.com/n1/a: CEL runtime error",),
    ),
)


@pytest.mark.wording
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name.replace(" ", "-"))
def test_the_first_line_names_the_true_cause(situation: Situation) -> None:
    found = explain_pod(Snapshot.of(*situation.objects), "default", "p")
    first = text_of(found).splitlines()[0]
    assert first.startswith("pod default/p waits: ")
    for part in situation.says:
        assert part in first
    assert found.cause.code == situation.code
    again = msgspec.json.decode(msgspec.json.encode(found))
    assert again["cause"]["code"] == situation.code


def test_there_are_more_than_thirty_situations() -> None:
    assert len({situation.name for situation in SITUATIONS}) == len(SITUATIONS) > 30


@pytest.mark.wording
def test_the_funnel_of_every_node_and_who_holds_the_devices() -> None:
    found = explain_pod(Snapshot.of(*CLUSTER, FULL_N1, FULL_N2, claim(), pod()), "default", "p")
    text = text_of(found)
    funnel = "request r: 1 needed: 2 published → 2 match class gpu → 2 tolerated → 0 free ✗"
    assert f"nodes n1, n2\n└─ claim c\n   └─ {funnel}" in text
    assert "matching devices are held by:" in text
    assert "  claim default/x2: 2 devices on n2 (used by pod trainer)" in text
    assert [holder.claim for holder in found.holders] == ["default/x1", "default/x2"]
    assert found.nodes[0].devices is not None
    assert [reason.code for reason in found.nodes[0].reasons] == [NodeCode.CANNOT_ALLOCATE]


def test_who_holds_the_counters_is_data() -> None:
    objects = (*PARTITIONED, held("nb-0", "1g-5", by=("nb",)), claim("c", wants(1, MODEL % ("model", "3g"))), pod())
    [holder] = explain_pod(Snapshot.of(*objects), "default", "p").holders
    [amount] = holder.amounts
    assert (holder.claim, holder.devices, holder.consumers) == ("default/nb-0", (), ("pod nb",))
    assert (amount.place, amount.counter_set, amount.name) == (f"{DRIVER}/n1", "gpu-1", "slice-5")


def test_what_a_claim_holds_in_several_pieces_is_told_as_one_amount() -> None:
    memory = [{"name": "gpu", "counters": {"memory": {"value": "80Gi"}}}]
    parts = [
        device(name, consumesCounters=[{"counterSet": "gpu", "counters": {"memory": {"value": f"{size}Gi"}}}])
        for name, size in (("whole", 80), ("a", 10), ("b", 20))
    ]
    gpu = gpus("n1", 0, name="counters", of=2, sharedCounters=memory), gpus("n1", parts, of=2)
    whole = claim("c", wants(1))
    objects = node("n1"), class_(), *gpu, held("nb-0", "a", "b", by=("nb",)), whole, pod()
    [holder] = explain_pod(Snapshot.of(*objects), "default", "p").holders
    assert [(amount.place, amount.amount) for amount in holder.amounts] == [(f"{DRIVER}/n1", "30Gi")]


def test_a_spread_pod_fits_where_the_scheduler_puts_it() -> None:
    """Only the nodes that the pod may use count for its constraint, so the crowded zone is no reason against it."""
    labels = {"app": "x"}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    there = pod("q", claims=(), nodeName="n1", status={"phase": "Running"}, labels=labels)
    wanted = pod(claims=(), nodeSelector={"zone": "a"}, topologySpreadConstraints=[constraint], labels=labels)
    nodes = node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})
    found = explain_pod(Snapshot.of(*nodes, there, wanted), "default", "p")
    assert [verdict.node for verdict in found.nodes if verdict.fits] == ["n1"]


def test_an_explanation_ends_after_its_steps_and_says_what_it_did_not_finish() -> None:
    devices = [device(f"d{i}", attributes={"index": {"int": i}}) for i in range(128)]
    costly = slowly(f'device.attributes["{DRIVER}"].index >= 1000', 80)
    objects = (node(), class_(), gpus("n1", devices), claim("c", wants(1, costly)), pod())
    found = explain_pod(Snapshot.of(*objects), "default", "p", Allowance.within(0.3))
    assert found.cause.code == "TimedOut"
    assert [(v.node, v.is_late) for v in found.nodes] == [("n1", True)]
    assert found.late == ("n1",)


@pytest.mark.wording
def test_a_pod_that_runs_or_is_done_does_not_wait() -> None:
    ended = {"name": "c", "state": {"terminated": {"exitCode": 3}}}
    for status, says in (
        ({"phase": "Running"}, "it runs on n1"),
        ({"phase": "Succeeded"}, "it is finished: Succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, "it is finished: Failed: Evicted"),
        (
            {"phase": "Failed", "containerStatuses": [ended]},
            "it is finished: Failed: container c ended with exit code 3",
        ),
    ):
        found = explain_pod(Snapshot.of(*CLUSTER, pod(nodeName="n1", status=status)), "default", "p")
        assert not found.waits
        assert text_of(found) == f"pod default/p: {says}"


@pytest.mark.wording
def test_a_finished_pod_that_does_not_go_is_told_of() -> None:
    held = pod(nodeName="n1", status={"phase": "Succeeded"})
    meta = replace(held.metadata, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=("example.com/hold",))
    found = explain_pod(Snapshot.of(*CLUSTER, replace(held, metadata=meta)), "default", "p")
    assert found.waits
    assert "finalizers hold it: example.com/hold" in text_of(found)


@pytest.mark.wording
def test_an_unknown_name_is_refused_with_one_that_is_alike() -> None:
    snapshot = Snapshot.of(pod("training"), claim("gpu"))
    with pytest.raises(NotThere, match=r'pod "trainin" not found, did you mean training\?'):
        explain_pod(snapshot, "default", "trainin")
    with pytest.raises(NotThere, match=r'resourceclaim "gpus" not found, did you mean gpu\?'):
        explain_claim(snapshot, "default", "gpus")
    with pytest.raises(NotThere, match='pod "training" is not in namespace elsewhere, but in default'):
        explain_pod(snapshot, "elsewhere", "training")


TOLD = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/9 nodes"}]}


@pytest.mark.wording
@pytest.mark.parametrize(
    ("unreadable", "partial", "unread"),
    [
        ({Node}, set(), ("nodes",)),
        ({ResourceSlice}, set(), ("resourceslices",)),
        ({ResourceClaim, DeviceClass}, set(), ("deviceclasses", "resourceclaims")),
        (set(), {ResourceClaim}, ("resourceclaims of other namespaces",)),
    ],
)
@pytest.mark.parametrize(
    ("status", "says"),
    [(TOLD, "the scheduler says: 0/9 nodes"), (None, "and no scheduler has said anything")],
)
def test_who_may_not_read_what_decides_is_told_what_the_scheduler_says(
    unreadable: set[type[Any]], partial: set[type[Any]], unread: tuple[str, ...], status: Any, says: str
) -> None:
    objects = {**Snapshot.of(*CLUSTER, claim(), pod(status=status)).objects}
    for type_ in unreadable - {ResourceClaim}:
        del objects[type_]
    snapshot = Snapshot(objects, frozenset(unreadable), partial=frozenset(partial))
    found = explain_pod(snapshot, "default", "p")
    assert says in text_of(found).splitlines()[0]
    assert (found.cause.code, found.unread, found.help) == ("SchedulerSays", unread, ())


def test_what_does_not_depend_on_other_namespaces_is_found_without_them() -> None:
    snapshot = dataclasses.replace(
        Snapshot.of(*CLUSTER, claim("c", wants(3)), pod()), partial=frozenset({ResourceClaim})
    )
    found = explain_pod(snapshot, "default", "p")
    assert (found.cause.code, found.help) == ("TooFewDevices", ())


# Claims


@pytest.mark.wording
@pytest.mark.parametrize(
    ("objects", "code", "says", "waits"),
    [
        ((*CLUSTER, claim()), "Unused", "no pod uses it", True),
        ((*CLUSTER, held("c", "gpu-0")), "Allocated", f"{DRIVER}/n1/gpu-0; used by pod other", False),
        ((*CLUSTER, held("c", "gpu-0", by=())), "Allocated", "used by nobody", False),
        ((*CLUSTER, claim("c", wants(device_class="nope"))), "ClassMissing", "device class nope does not exist", True),
        ((*CLUSTER, claim("c", wants(3))), "TooFewDevices", "needs 3 devices on one node", True),
        ((*CLUSTER, claim(), pod(status={"phase": "Failed"})), "Unused", "no pod uses it", True),
        ((*CLUSTER, claim(), pod(cpu="64")), "PodWaits", "pod p waits: its devices are on", True),
        (
            (*CLUSTER, claim("c", deletionTimestamp="2026-01-01T00:00:00Z")),
            "Deleting",
            "it is being deleted",
            False,
        ),
    ],
)
def test_why_a_claim_waits(objects: tuple[Any, ...], code: str, says: str, waits: bool) -> None:
    found = explain_claim(Snapshot.of(*objects), "default", "c")
    assert (found.cause.code, found.waits) == (code, waits)
    assert says in text_of(found).splitlines()[0]


# Requests for pool status


def asked(status: dict[str, Any] | None = None) -> ResourcePoolStatusRequest:
    tree = {"metadata": {"name": "check"}, "spec": {"driver": DRIVER}, "status": status}
    return msgspec.convert(tree, ResourcePoolStatusRequest)


def condition(type_: str, message: str) -> dict[str, Any]:
    time = "2026-01-01T00:00:00Z"
    return {"type": type_, "status": "True", "reason": "R", "message": message, "lastTransitionTime": time}


@pytest.mark.parametrize(
    ("status", "code", "waits"),
    [
        (None, "NoController", True),
        ({"observationTime": "2026-01-01T00:00:00Z", "conditions": [condition("Failed", "boom")]}, "Failed", False),
        ({"observationTime": "2026-01-01T00:00:00Z", "conditions": [condition("Complete", "")]}, "NoPools", False),
        (
            {
                "observationTime": "2026-01-01T00:00:00Z",
                "poolCount": 1,
                "pools": [{"driver": DRIVER, "poolName": "n1", "generation": 1}],
            },
            "Complete",
            False,
        ),
    ],
)
def test_why_a_request_for_pool_status_waits(status: dict[str, Any] | None, code: str, waits: bool) -> None:
    found = explain_request(Snapshot.of(asked(status)), "check")
    assert (found.cause.code, found.waits) == (code, waits)


@pytest.mark.wording
def test_a_request_that_the_api_server_hides() -> None:
    with pytest.raises(NotThere, match="gate DRAResourcePoolStatus is off"):
        explain_request(Snapshot(unserved=frozenset({ResourcePoolStatusRequest})), "check")
    with pytest.raises(NotThere, match='"check" not found'):
        explain_request(Snapshot.of(), "check")


def test_objects_are_found_by_name_and_namespace() -> None:
    snapshot = Snapshot.of(pod("a"), pod("b"))
    assert snapshot.get(Pod, "b", "default") is snapshot.all(Pod)[1]
    assert snapshot.get(Pod, "b", "other") is None


def test_a_group_says_what_its_pods_lack() -> None:
    member = {"schedulingGroup": {"podGroupName": "g"}}
    far = pod("far", claims=(), nodeSelector={"disk": "none"}, **member)

    def cause(*objects: Any) -> str:
        return str(explain_group(Snapshot.of(*CLUSTER, group(gang=2), *objects), "default", "g").cause.code)

    assert cause(pod("a", claims=(), **member)) == "GangIncomplete"
    assert cause(pod("a", claims=(), **member), far) == "GangUnplaced"
    assert cause(far, pod("z", claims=(), **member)) == "PodWaits"
    running = [pod(name, claims=(), node="n1", status={"phase": "Running"}, **member) for name in "ab"]
    assert cause(*running) == "AllRun"
