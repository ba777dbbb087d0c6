"""Small cases for autoscaling: groups and pods drawn from a seed, as plain data and as the objects that they stand for."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import yaml

from tests.objects import pod

DRIVER = "gpu.example.com"
ROOT = "resource.kubernetes.io/pcieRoot"
NAMESPACE = "default"


@dataclass(frozen=True)
class Chip:
    """A device: plain, a partition that draws on the counter of its card, or one whose memory is shared."""

    name: str
    model: str
    root: str
    card: str = ""
    draws: int = 0
    shared: int = 0


@dataclass(frozen=True)
class Group:
    name: str
    price: int
    most: int
    cpu: int
    chips: tuple[Chip, ...]
    cards: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Option:
    """One way to serve a request: so many chips of a model, or so much memory of a shared one."""

    model: str
    count: int
    memory: int = 0


@dataclass(frozen=True)
class Want:
    """Pods that use one claim: alternatives of one request, all on one root where that is asked for."""

    options: tuple[Option, ...]
    one_root: bool = False
    pods: int = 1
    cpu: int = 1


@dataclass(frozen=True)
class Case:
    groups: tuple[Group, ...]
    wants: tuple[Want, ...]
    seed: int = field(default=0, compare=False)


def case(seed: int) -> Case:
    rng = random.Random(seed)
    groups = tuple(_group(rng, number) for number in range(rng.randint(2, 4)))
    kinds = [_want(rng) for _ in range(rng.randint(2, 4))]
    wants: list[Want] = []
    while sum(want.pods for want in wants) < 9 and len(wants) < 9:
        wants.append(rng.choice(kinds))
        if rng.random() < 0.12:
            break
    return Case(groups, tuple(wants), seed)


def _group(rng: random.Random, number: int) -> Group:
    chips: list[Chip] = []
    cards: list[tuple[str, int]] = []
    what = rng.random()
    if what < 0.6:
        size = rng.choice((1, 2, 4))
        models = [rng.choice(("big", "small"))] * size if rng.random() < 0.7 else rng.choices(("big", "small"), k=size)
        chips += [Chip(f"gpu-{at}", model, f"root-{at // 2}") for at, model in enumerate(models)]
    elif what < 0.8:
        for card in range(rng.choice((1, 2))):
            cards.append((f"card-{card}", 4))
            chips.append(Chip(f"whole-{card}", "big", f"root-{card}", f"card-{card}", 4))
            chips += [Chip(f"half-{card}-{at}", "small", f"root-{card}", f"card-{card}", 2) for at in range(2)]
    else:
        chips += [Chip(f"shared-{at}", "shared", f"root-{at}", shared=8) for at in range(rng.choice((1, 2)))]
        chips += [Chip("gpu-0", "small", "root-0")]
    cpu = rng.choice((2, 3, 4, 8))
    return Group(f"g{number}", rng.randint(1, 9), rng.choice((1, 2, 3, 3)), cpu, tuple(chips), tuple(cards))


def _want(rng: random.Random) -> Want:
    cpu = rng.choice((1, 1, 2))
    what = rng.random()
    if what < 0.4:
        count = rng.choice((1, 1, 2))
        return Want((Option(rng.choice(("big", "small", "")), count),), count > 1 and rng.random() < 0.5, cpu=cpu)
    if what < 0.7:
        first, second = Option("big", 1), Option("small", rng.choice((1, 2)))
        return Want((first, second) if rng.random() < 0.7 else (second, first), cpu=cpu)
    if what < 0.85:
        return Want((Option(rng.choice(("big", "small")), 1),), pods=rng.choice((2, 3)), cpu=1)
    return Want((Option("shared", 1, rng.choice((2, 3, 4))),), cpu=cpu)


# As objects


def groups_file(case: Case, **settings: Any) -> str:
    return yaml.safe_dump({"groups": [_group_tree(group) for group in case.groups], "settings": settings})


def _group_tree(group: Group) -> dict[str, Any]:
    counters = [{"name": card, "counters": {"units": {"value": str(much)}}} for card, much in group.cards]
    pool = {"driver": DRIVER, "devices": [_chip_tree(chip) for chip in group.chips], "sharedCounters": counters}
    template = {
        "capacity": {"cpu": str(group.cpu), "memory": "64Gi", "pods": "20"},
        "classes": [{"name": "gpu", "selector": f'device.driver == "{DRIVER}"'}],
        "pools": [pool],
    }
    return {"name": group.name, "price": group.price, "max": group.most, "template": template}


def _chip_tree(chip: Chip) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "name": chip.name,
        "attributes": {"model": {"string": chip.model}, ROOT: {"string": chip.root}},
    }
    if chip.card:
        tree["consumesCounters"] = [{"counterSet": chip.card, "counters": {"units": {"value": str(chip.draws)}}}]
    if chip.shared:
        tree |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": str(chip.shared)}}}
    return tree


def objects(case: Case) -> list[dict[str, Any]]:
    """Claims and pods. Pods of one want share its claim."""
    found: list[dict[str, Any]] = []
    for number, want in enumerate(case.wants):
        meta = {"name": f"claim-{number}", "namespace": NAMESPACE}
        spec = {"devices": _devices(want)}
        found.append({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec})
        found += [_pod_using(f"pod-{number}-{at}", f"claim-{number}", want.cpu) for at in range(want.pods)]
    return found


def _devices(want: Want) -> dict[str, Any]:
    if len(want.options) == 1:
        request: dict[str, Any] = {"name": "gpu", "exactly": _exactly(want.options[0])}
    else:
        options = [{"name": f"way-{at}", **_exactly(option)} for at, option in enumerate(want.options)]
        request = {"name": "gpu", "firstAvailable": options}
    constraints = [{"matchAttribute": ROOT}] if want.one_root else []
    return {"requests": [request], "constraints": constraints}


def _exactly(option: Option) -> dict[str, Any]:
    found: dict[str, Any] = {"deviceClassName": "gpu", "count": option.count}
    model = f'device.attributes["{DRIVER}"].model'
    expression = f'{model} == "{option.model}"' if option.model else f'{model} != "shared"'
    found["selectors"] = [{"cel": {"expression": expression}}]
    if option.memory:
        found["capacity"] = {"requests": {"memory": str(option.memory)}}
    return found


def _pod_using(name: str, claim: str, cpu: int) -> dict[str, Any]:
    return pod(
        name,
        namespace=NAMESPACE,
        needs={"requests": {"cpu": str(cpu)}},
        resourceClaims=[{"name": "gpu", "resourceClaimName": claim}],
    )
