"""`dray allocate`: ask the allocator without a cluster, for recorded scenarios or for Kubernetes manifests.

For manifests it prints which devices each request gets, or request by request why it gets none. `-o json`, and scenarios
always, give one JSON line for each question: {"id", "outcome", "result", "message", "ms"}; a failure of manifests is then
explained on standard error. Left out: writing allocations anywhere.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dray.cli import InputError, Subparsers, fail

if TYPE_CHECKING:
    from dray.allocator import Allocated, Outcome
    from dray.api.types.core import Node, Pod
    from dray.api.types.resource import ResourceClaim
    from dray.inspect.snapshot import Snapshot


ALLOCATED, WRONG_INPUT = 0, 2


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "allocate",
        help="allocate devices offline, for scenarios or manifests",
        description="Allocate devices as the scheduler would, without a cluster. Exits 1 where something is left over.",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--scenarios", metavar="FILE", help="one JSON object a line: node, classes, slices, claims, ..."
    )
    source.add_argument(
        "-f", "--filename", action="append", metavar="PATH", help="Kubernetes YAML or JSON; - for stdin"
    )
    parser.add_argument("--node", metavar="NAME", help="the node to allocate on (with -f; the only one if left out)")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="with -f (%(default)s)")
    parser.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="work for each question, at 50,000 steps a second (default 10)",
    )
    parser.add_argument("--feature-gates", default="", metavar="A=true,...", help="with -f: features on and off")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from dray.api.gates import GateError
    from dray.api.manifests import ManifestError
    from dray.cli._scenarios import ScenarioError

    try:
        return _scenarios(args) if args.scenarios else _manifests(args)
    except (InputError, ManifestError, ScenarioError, GateError, OSError) as error:
        return fail("allocate", error, WRONG_INPUT)


def answer(id_: str, outcome: Outcome, milliseconds: float) -> dict[str, Any]:
    """An outcome as it is printed."""
    from dray.allocator import Allocated, Failed, GaveUp
    from dray.api.reasons.wording import input_problem, timed_out
    from dray.api.reasons.wording import line as words

    line: dict[str, Any] = {"id": id_}
    match outcome:
        case Allocated():
            line |= {"outcome": "allocated", "result": list(outcome.results)}
        case Failed():
            line |= {"outcome": "error", "message": input_problem(outcome.problem)}
        case GaveUp():
            line |= {"outcome": "gave-up", "message": timed_out(outcome.progress)}
        case _:
            line |= {"outcome": "none", "message": words(outcome.explain())}
    return line | {"ms": round(milliseconds, 3)}


def _print(line: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")


# Scenarios


def _scenarios(args: argparse.Namespace) -> int:
    from dray.allocator import steps_in
    from dray.cli._scenarios import read_scenario

    gc.collect()
    gc.freeze()  # what is imported by now stays; collections during the answers need not visit it
    with open(args.scenarios, "rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            scenario = read_scenario(line, f"{args.scenarios}, line {number}")
            start = time.monotonic()
            outcome = scenario.ask(steps_in(args.timeout))
            _print(answer(scenario.id, outcome, (time.monotonic() - start) * 1000))
    return ALLOCATED


# Manifests


def _manifests(args: argparse.Namespace) -> int:
    from dray.allocator import Allocated, Features, Unallocatable, allocate, steps_in
    from dray.api.allocations import taken_by_all, together
    from dray.api.gates import FeatureGates
    from dray.api.reasons.wording import tree
    from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
    from dray.cli._manifests import read_manifests
    from dray.inspect.snapshot import Snapshot

    gates = FeatureGates.parse(args.feature_gates)
    features = Features.from_gates(gates.enabled)
    manifests = Snapshot.of(*read_manifests(args.filename, gates))
    node = _node(args.node, manifests)
    taken = taken_by_all(manifests.all(ResourceClaim))
    classes, slices = manifests.all(DeviceClass), manifests.all(ResourceSlice)
    left_over = False
    for id_, claims in _questions(manifests):
        start = time.monotonic()
        outcome = allocate(node, claims, classes, slices, taken.devices, features, steps_in(args.timeout), taken.shares)
        answered = answer(id_, outcome, (time.monotonic() - start) * 1000)
        if args.output == "json":
            _print(answered)
        if isinstance(outcome, Allocated):
            taken = together([taken, *outcome.taken])
            if args.output == "text":
                print(f"{id_} on {node.metadata.name}:", *_lines(claims, outcome), sep="\n")
            continue
        left_over = True
        to = sys.stderr if args.output == "json" else sys.stdout
        print(f"{id_} cannot be allocated: {answered['message']}", file=to)
        if isinstance(outcome, Unallocatable):
            print(tree(outcome.explain()), file=to)
    return int(left_over)


def _lines(claims: Sequence[ResourceClaim], outcome: Allocated) -> Iterator[str]:
    """The devices of every request."""
    if not claims:
        yield "  nothing: it asks for no devices"
    for claim, result in zip(claims, outcome.results, strict=True):
        for one in result["devices"]["results"]:
            device = "/".join((one["driver"], one["pool"], one["device"]))
            yield f"  claim {claim.metadata.name}, request {one['request']}: {device}"


def _node(name: str | None, manifests: Snapshot) -> Node:
    from dray.api.types.core import Node
    from dray.api.types.meta import ObjectMeta

    nodes = {node.metadata.name: node for node in manifests.all(Node)}
    if name is None:
        if len(nodes) != 1:
            raise InputError(f"--node is needed to choose one of {', '.join(nodes)}" if nodes else "--node is needed")
        return next(iter(nodes.values()))
    if name in nodes:
        return nodes[name]
    if nodes:
        raise InputError(f"there is no node {name}; the manifests have {', '.join(nodes)}")
    return Node(metadata=ObjectMeta(name=name))  # no node is described, so this one has no labels


def _questions(manifests: Snapshot) -> Iterator[tuple[str, list[ResourceClaim]]]:
    """The claims of each pod; without pods, all claims together. What is allocated already is not asked for."""
    from dray.api.types.core import Pod
    from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
    from dray.client import key_of

    claims = {key_of(claim): claim for claim in manifests.all(ResourceClaim)}
    templates = {key_of(template): template for template in manifests.all(ResourceClaimTemplate)}
    pods = manifests.all(Pod)
    done: set[tuple[str, str]] = {key for key, claim in claims.items() if claim.status.allocation is not None}
    if not pods:
        pending = [claim for key, claim in claims.items() if key not in done]
        if not pending:
            raise InputError("the manifests ask for nothing: no Pod, and no ResourceClaim without an allocation")
        yield "claims", pending
    for pod in pods:
        used = [(key, claim) for key, claim in _claims_of(pod, claims, templates) if key not in done]
        done.update(key for key, _ in used)
        yield f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}", [claim for _, claim in used]


def _claims_of(
    pod: Pod, claims: dict[tuple[str, str], ResourceClaim], templates: dict[tuple[str, str], Any]
) -> Iterator[tuple[tuple[str, str], ResourceClaim]]:
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import ResourceClaim

    namespace = pod.metadata.namespace
    for entry in pod.spec.resourceClaims:
        if entry.resourceClaimName:
            key = (namespace, entry.resourceClaimName)
            if key not in claims:
                raise InputError(f"pod {pod.metadata.name}: there is no ResourceClaim {entry.resourceClaimName}")
            yield key, claims[key]
        elif entry.resourceClaimTemplateName:
            template = templates.get((namespace, entry.resourceClaimTemplateName))
            if template is None:
                wanted = entry.resourceClaimTemplateName
                raise InputError(f"pod {pod.metadata.name}: there is no ResourceClaimTemplate {wanted}")
            name = f"{pod.metadata.name}-{entry.name}"
            meta = ObjectMeta(name=name, namespace=namespace)
            yield (namespace, name), ResourceClaim(metadata=meta, spec=template.spec.spec)
