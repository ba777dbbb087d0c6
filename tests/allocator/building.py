"""Small clusters and claims for tests: short ways to write wire objects, and a generator of random ones."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import msgspec

from dray.allocator import Features
from dray.api.allocations import Share
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from tests import objects

DRIVER = "gpu.example.com"
ROOT = "x.io/root"
NUMA = "x.io/numa"


class Instance(NamedTuple):
    """The arguments of `allocate` up to the features."""

    node: Node
    claims: list[ResourceClaim]
    classes: list[DeviceClass]
    slices: list[ResourceSlice]
    taken: list[tuple[str, str, str]]
    features: Features


def node(name: str = "n", **labels: str) -> Node:
    return msgspec.convert(objects.node(name, labels=labels), Node)


def attribute(value: Any) -> dict[str, Any]:
    one = value[0] if isinstance(value, list) else value
    kind = "bool" if isinstance(one, bool) else "int" if isinstance(one, int) else "string"
    return {f"{kind}s" if isinstance(value, list) else kind: value}


def device(name: str, taints: Any = None, **attributes: Any) -> dict[str, Any]:
    tree = {"name": name, "attributes": {key: attribute(value) for key, value in attributes.items()}}
    return tree | ({"taints": taints} if taints else {})


def slice_(
    name: str, devices: list[dict[str, Any]], pool: str = "p", driver: str = DRIVER, count: int = 1, **spec: Any
) -> ResourceSlice:
    place = spec if spec.keys() & {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} else {}
    generation = spec.pop("generation", 1)
    tree = {
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": devices,
            **(place or {"nodeName": "n"}),
            **spec,
        },
    }
    return msgspec.convert(tree, ResourceSlice)


def class_(name: str, *selectors: str, config: list[dict[str, Any]] | None = None) -> DeviceClass:
    return msgspec.convert(objects.device_class(name, *selectors, config=config or []), DeviceClass)


def spec(count: int | None = 1, *selectors: str, cls: str = "any", **fields: Any) -> dict[str, Any]:
    """What a request or an alternative asks for; no count means all devices."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    chosen = {"selectors": [{"cel": {"expression": text}} for text in selectors]} if selectors else {}
    return {"deviceClassName": cls, **mode, **chosen, **fields}


def request(name: str, count: int | None = 1, *selectors: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "exactly": spec(count, *selectors, **fields)}


def alternatives(name: str, **subrequests: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "firstAvailable": [{"name": key, **value} for key, value in subrequests.items()]}


def claim(name: str, *requests: dict[str, Any], match: tuple[str, ...] = (), **devices: Any) -> ResourceClaim:
    constraints = [{"matchAttribute": attribute_} for attribute_ in match] + devices.pop("constraints", [])
    tree = objects.claim(name, requests=list(requests), namespace="ns", constraints=constraints, **devices)
    return msgspec.convert(tree, ResourceClaim)


def index_below(limit: int) -> str:
    return f'device.attributes["{DRIVER}"].index < {limit}'


def slowly(expression: str, rounds: int = 40) -> str:
    """The same selector, which takes a millisecond for each device; with 80 rounds, dozens of them."""
    numbers = str(list(range(rounds)))
    return f"{numbers}.all(a, {numbers}.all(b, string(a + b) != device.driver)) && {expression}"


def counters(name: str, pool: str = "p", driver: str = DRIVER, count: int = 2, **sets: dict[str, Any]) -> ResourceSlice:
    """A slice with counter sets, each a map of counters to values."""
    shared = [
        {"name": set_, "counters": {key: {"value": str(value)} for key, value in values.items()}}
        for set_, values in sets.items()
    ]
    return slice_(name, [], pool, driver, count, nodeName="n", sharedCounters=shared)


def drawing(set_: str, **amounts: Any) -> dict[str, Any]:
    """What a device draws of a counter set."""
    drawn = {key: {"value": str(value)} for key, value in amounts.items()}
    return {"consumesCounters": [{"counterSet": set_, "counters": drawn}]}


def shareable(policies: dict[str, dict[str, Any]] | None = None, **values: Any) -> dict[str, Any]:
    """A device of which several claims may have shares, with so much of each capacity."""
    capacity: dict[str, dict[str, Any]] = {name: {"value": str(value)} for name, value in values.items()}
    for name, policy in (policies or {}).items():
        capacity[name]["requestPolicy"] = policy
    return {"allowMultipleAllocations": True, "capacity": capacity}


ANY = class_("any")
GPU = class_("gpu", f'device.driver == "{DRIVER}"')

_RISKY = [index_below(2), f'device.attributes["{DRIVER}"].model == "a100"']
_SAFE = ["true", f'device.driver == "{DRIVER}"', f'device.attributes["{DRIVER}"].?model.orValue("none") != "t4"']


def random_instance(random: Random) -> Instance:
    """A small cluster with every feature in it, contended enough that most answers are not obvious."""
    slices: list[ResourceSlice] = []
    for driver in [DRIVER, "nic.example.org"][: random.choice([1, 1, 2])]:
        for pool in range(random.choice([1, 1, 2])):
            slices.append(_random_slice(random, f"s{len(slices)}", driver, f"p{pool}"))
    claims = [_random_claim(random, f"c{number}") for number in range(random.choice([1, 1, 2, 3]))]
    taken = [
        (part.spec.driver, part.spec.pool.name, offered.name)
        for part in slices
        for offered in part.spec.devices
        if random.randint(1, 100) <= 15
    ]
    return Instance(node(), claims, [ANY, GPU], slices, taken, Features(device_taints=random.choice([True, False])))


def _random_slice(random: Random, name: str, driver: str, pool: str) -> ResourceSlice:
    devices = []
    for number in range(random.randint(1, 5)):
        held: dict[str, Any] = {}
        for key, values in (("index", range(5)), ("model", ["a100", "t4"]), (ROOT, "pqr"), (NUMA, [0, 1, "0"])):
            if random.randint(1, 100) <= 90:
                held[key] = random.choice(list(values))
        taints = [{"key": "k", "effect": "NoSchedule"}] if random.randint(1, 100) <= 15 else None
        devices.append(device(f"d{number}", taints, **held))
    if random.randint(1, 100) <= 3:
        devices.append(devices[0])
    return slice_(name, devices, pool, driver, count=2 if random.randint(1, 100) <= 3 else 1)


def _random_spec(random: Random, privileged: bool) -> dict[str, Any]:
    count = None if random.randint(1, 100) <= 12 else random.choice([1, 1, 1, 2, 3])
    pick = random.randint(1, 100)
    selectors = [random.choice(_RISKY)] if pick <= 15 else [random.choice(_SAFE)] if pick <= 50 else []
    fields: dict[str, Any] = {"cls": random.choice(["any", "gpu", "gpu"]) if random.randint(1, 100) <= 98 else "nope"}
    if random.randint(1, 100) <= 20:
        fields["tolerations"] = [{"operator": "Exists"}]
    if privileged and random.randint(1, 100) <= 12:
        fields["adminAccess"] = True
    return spec(count, *selectors, **fields)


def _random_claim(random: Random, name: str) -> ResourceClaim:
    requests, names = [], []
    for number in range(random.choice([1, 2, 2, 3])):
        own = f"r{number}"
        names.append(own)
        if random.randint(1, 100) <= 35:
            subs = {f"s{place}": _random_spec(random, False) for place in range(random.choice([1, 2, 3]))}
            names += [f"{own}/{sub}" for sub in subs]
            requests.append(alternatives(own, **subs))
        else:
            requests.append({"name": own, "exactly": _random_spec(random, True)})
    constraints = []
    for _ in range(random.choice([0, 0, 1, 1, 2])):
        kind = random.choice(["matchAttribute"] * 5 + ["distinctAttribute"])
        constraint: dict[str, Any] = {kind: random.choice([ROOT, NUMA, f"{DRIVER}/model"])}
        if random.randint(1, 100) <= 40:
            constraint["requests"] = random.sample(names, min(len(names), random.choice([1, 2])))
        constraints.append(constraint)
    return claim(name, *requests, constraints=constraints)


# Devices that consume counters and capacity.


class Consuming(NamedTuple):
    """An instance, and the shares that are in use."""

    instance: Instance
    shares: list[Share]


def random_consuming(random: Random) -> Consuming:
    """A small cluster of partitions and of devices that can be shared, contended as in `random_instance`."""
    slices = [*_random_partitions(random, "gpus"), *_random_shareable(random, "nics")]
    everything = [(part.spec.driver, part.spec.pool.name, offered) for part in slices for offered in part.spec.devices]
    taken, shares = [], []
    for driver, pool, offered in everything:
        if offered.allowMultipleAllocations and random.randint(1, 100) <= 40:
            consumed = {name: random.choice(["1", "2"]) for name in offered.capacity}
            shares.append(Share.of((driver, pool, offered.name), f"{offered.name}-0", consumed))
        elif not offered.allowMultipleAllocations and random.randint(1, 100) <= 12:
            taken.append((driver, pool, offered.name))
    claims = [_random_asking(random, f"c{number}") for number in range(random.choice([1, 1, 2]))]
    features = Features(
        partitionable_devices=random.randint(1, 100) <= 95,
        consumable_capacity=random.randint(1, 100) <= 95,
        binding_conditions=random.randint(1, 100) <= 80,
    )
    return Consuming(Instance(node(), claims, [ANY, GPU], slices, taken, features), shares)


def _random_partitions(random: Random, pool: str) -> list[ResourceSlice]:
    sets = {f"set{at}": {"units": random.choice([3, 4, 6]), "lanes": 4} for at in range(random.choice([1, 2]))}
    devices = []
    for number in range(random.randint(2, 6)):
        set_ = random.choice(sorted(sets))
        drawn = drawing(set_, units=random.choice([1, 2, 3]), lanes=random.choice([0, 1, 2]))
        if random.randint(1, 100) <= 15:
            drawn["consumesCounters"] += drawing(random.choice(sorted(sets)), units=1)["consumesCounters"]
            drawn["consumesCounters"] = list({one["counterSet"]: one for one in drawn["consumesCounters"]}.values())
        more = shareable(units=4) if random.randint(1, 100) <= 20 else {}
        taints = [{"key": "k", "effect": "NoSchedule"}] if random.randint(1, 100) <= 8 else None
        held = {"index": number} if random.randint(1, 100) <= 90 else {}
        devices.append(device(f"g{number}", taints, **held, **{ROOT: random.choice("pq")}) | drawn | more)
    cut = random.randint(0, len(devices))
    count = 3 if random.randint(1, 100) <= 95 else 4
    elsewhere = random.choice(["n", "n", "other"])
    return [
        counters("a-counters", pool, DRIVER, count, **sets),
        slice_("b-devices", devices[:cut], pool, DRIVER, count, nodeName="n"),
        slice_("c-devices", devices[cut:], pool, DRIVER, count, nodeName=elsewhere),
    ]


_POLICIES: list[dict[str, Any]] = [
    {},
    {"default": "1", "validRange": {"min": "1", "step": "2", "max": "5"}},
    {"default": "2", "validValues": ["2", "4"]},
    {"default": "500m", "validRange": {"min": "500m", "step": "500m"}},
]


_ODD = [
    {"units": "-1"},
    {"units": "100E"},
    {"units": "1u"},
    {"nope": "1"},
    {"ports": "0"},
    {"units": "6", "ports": "2"},
]


def _random_shareable(random: Random, pool: str) -> list[ResourceSlice]:
    devices = []
    for number in range(random.randint(1, 4)):
        policy = random.choice(_POLICIES)
        more = shareable({"units": policy} if policy else None, units=random.choice([4, 6]))
        if random.randint(1, 100) <= 25:
            more["capacity"]["ports"] = {"value": "2", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}
        more["allowMultipleAllocations"] = random.randint(1, 100) <= 80
        if random.randint(1, 100) <= 20:
            more |= {"bindingConditions": ["ready"], "bindsToNode": random.choice([True, False])}
        taints = [{"key": "k", "effect": "NoSchedule"}] if random.randint(1, 100) <= 8 else None
        devices.append(device(f"x{number}", taints, index=number, **{ROOT: random.choice("pq")}) | more)
    place: dict[str, Any] = {"nodeName": "n"}
    if random.randint(1, 100) <= 15:
        place = {"perDeviceNodeSelection": True}
        for one in devices:
            one |= random.choice([{"nodeName": "n"}, {"allNodes": True}, {"nodeName": "other"}])
    return [slice_("nics", devices, pool, random.choice([DRIVER, "nic.example.org"]), **place)]


def _random_asking(random: Random, name: str) -> ResourceClaim:
    def one(privileged: bool) -> dict[str, Any]:
        count = None if random.randint(1, 100) <= 10 else random.choice([1, 1, 2, 3])
        fields: dict[str, Any] = {"cls": random.choice(["any", "any", "gpu"])}
        if random.randint(1, 100) <= 45:
            fields["capacity"] = {"requests": {"units": random.choice(["1", "1500m", "2", "3"])}}
        elif random.randint(1, 100) <= 8:
            fields["capacity"] = {"requests": random.choice(_ODD)}
        if privileged and random.randint(1, 100) <= 10:
            fields["adminAccess"] = True
        if random.randint(1, 100) <= 20:
            fields["tolerations"] = [{"operator": "Exists"}]
        selectors = random.choice([[], [], [f'device.driver == "{DRIVER}"'], ["device.allowMultipleAllocations"]])
        if random.randint(1, 100) <= 6:
            selectors = [index_below(3)]
        return spec(count, *selectors, **fields)

    requests = []
    for number in range(random.choice([1, 2, 2])):
        if random.randint(1, 100) <= 30:
            requests.append(alternatives(f"r{number}", a=one(False), b=one(False)))
        else:
            requests.append({"name": f"r{number}", "exactly": one(True)})
    kinds = random.choice([[], [], ["matchAttribute"], ["distinctAttribute"]])
    return claim(name, *requests, constraints=[{kind: ROOT} for kind in kinds])
