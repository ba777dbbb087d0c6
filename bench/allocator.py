"""The allocator's figures, each beside a plain depth-first search on the same question in the same run.

Clusters are as a scheduler sees them: nodes with local devices, some with a pool that all of them reach. The plain
search is given two seconds for a question.
"""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable
from typing import Any

import msgspec

from bench._plain_search import TooSlow, plain_search
from dray.allocator import Allocated, AllocationOutcome, Index, allocate
from dray.api.types.core import Node
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice

DRIVER = "gpu.example.com"
NET = "net.example.org"
PATIENCE = 2.0

Question = tuple[Node, list[ResourceClaim], list[DeviceClass], list[ResourceSlice]]


def node(number: int) -> Node:
    return msgspec.convert({"metadata": {"name": f"n{number}"}}, Node)


def local(number: int, devices: int, unique: bool = False) -> ResourceSlice:
    """The slice of a node; with `unique`, devices carry a serial number and no two slices are alike."""
    offered = []
    for at in range(devices):
        attributes: dict[str, Any] = {
            "index": {"int": at},
            "model": {"string": "a100"},
            "driverVersion": {"version": "1.2.3"},
            "x.io/root": {"string": f"r{at // 4}"},
        }
        if unique:
            attributes["uuid"] = {"string": f"gpu-{number}-{at}"}
        offered.append({"name": f"d{at}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}})
    return published(f"s{number}", DRIVER, f"n{number}", offered, nodeName=f"n{number}")


def published(name: str, driver: str, pool: str, devices: list[dict[str, Any]], **place: Any) -> ResourceSlice:
    pool_ = {"name": pool, "generation": 1, "resourceSliceCount": place.pop("count", 1)}
    spec = {"driver": driver, "pool": pool_, "devices": devices, **place}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, ResourceSlice)


def class_(name: str, driver: str) -> DeviceClass:
    selectors = [{"cel": {"expression": f'device.driver == "{driver}"'}}]
    return msgspec.convert({"metadata": {"name": name}, "spec": {"selectors": selectors}}, DeviceClass)


CLASSES = [class_("gpu", DRIVER), class_("net", NET)]


def claim(
    requests: int = 1, cls: str = "gpu", same: str = "", selector: str = "", capacity: dict[str, str] | None = None
) -> ResourceClaim:
    exactly: dict[str, Any] = {"deviceClassName": cls, "allocationMode": "ExactCount", "count": 1}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    if capacity:
        exactly["capacity"] = {"requests": capacity}
    devices: dict[str, Any] = {"requests": [{"name": f"q{at}", "exactly": exactly} for at in range(requests)]}
    if same:
        devices["constraints"] = [{"matchAttribute": same}]
    return msgspec.convert({"metadata": {"name": "c", "namespace": "b"}, "spec": {"devices": devices}}, ResourceClaim)


def cluster(nodes: int, devices: int, unique: bool = False, network: int = 0) -> Index:
    index = Index()
    for each in CLASSES:
        index.upsert_class(each)
    if network:
        offered = [{"name": f"x{at}"} for at in range(network)]
        index.upsert_slice(published("net", NET, "net", offered, allNodes=True))
    for number in range(nodes):
        index.upsert_node(node(number))
        index.upsert_slice(local(number, devices, unique))
    return index


def seconds(action: Callable[[], object], times: int = 1) -> float:
    """The best of three, for one run of the action."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(times):
            action()
        best = min(best, (time.perf_counter() - start) / times)
    return best


def plain(question: Question) -> str:
    start = time.perf_counter()
    try:
        plain_search(*question, deadline=time.monotonic() + PATIENCE)
    except TooSlow:
        return f"gave up after {PATIENCE:.0f} s"
    return _time(time.perf_counter() - start)


def _time(value: float) -> str:
    return f"{value * 1e6:.1f} µs" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"


def _row(what: str, ours: str, theirs: str) -> None:
    print(f"{what:<62} {ours:>12}   plain {theirs}")


def one_device() -> None:
    """A claim for one device on a node that the index knows."""
    asked = [claim()]
    index = cluster(1, 8)
    question = (node(0), asked, CLASSES, [local(0, 8)])
    slow = _time(seconds(lambda: plain_search(*question), 50))
    _row("one device, warm index (target 30 µs)", _time(seconds(lambda: index.allocate("n0", asked), 2000)), slow)
    _row("one device, pure function", _time(seconds(lambda: allocate(*question), 200)), slow)


def which_nodes_fit() -> None:
    """Which of 500 nodes with 10 devices each can serve a claim."""
    asked = [claim()]
    slices = [local(number, 10) for number in range(500)]

    def everywhere() -> None:
        for number in range(500):
            plain_search(node(number), asked, CLASSES, [slices[number]])

    slow = _time(seconds(everywhere))
    start = time.perf_counter()
    index = cluster(500, 10)
    fed = time.perf_counter() - start
    start = time.perf_counter()
    index.fits(asked)
    _row("500 nodes x 10 devices, first question", _time(time.perf_counter() - start), slow)
    _row("500 nodes x 10 devices, warm (target 1 ms)", _time(seconds(lambda: index.fits(asked), 100)), slow)

    def changed() -> None:
        index.take([(DRIVER, "n7", "d0")])
        index.fits(asked)
        index.release([(DRIVER, "n7", "d0")])
        index.fits(asked)

    _row("500 nodes x 10 devices, after a node changed", _time(seconds(changed, 100) / 2), slow)
    print(f"{'feeding those 500 nodes':<62} {_time(fed):>12}")


def cycles() -> None:
    """Scheduling cycles: find the nodes that fit, allocate on one, take the devices."""
    for title, asked, network in (
        ("local devices", [claim()], 0),
        ("a network-attached pool", [claim(cls="net")], 4000),
        ("both at once", [claim(), claim(cls="net")], 4000),
    ):
        rates = []
        for nodes in (500, 5000):
            index = cluster(nodes, 8, network=network)
            index.fits(asked)
            rates.append(_rate(index, asked, 100 if len(asked) > 1 else 1000))
        few, many = rates
        print(
            f"{'cycles/s with ' + title:<48} 500 nodes {few:>7.0f}   5,000 nodes {many:>7.0f}   ratio {many / few:.2f}"
        )


def consuming() -> None:
    """Scheduling cycles with devices that consume, beside plain ones: partitions of four GPUs a node, shares of eight."""
    kinds: dict[str, tuple[Callable[[int], list[ResourceSlice]], list[ResourceClaim]]] = {
        "plain devices": (lambda number: [local(number, 8)], [claim()]),
        "partitions": (lambda number: partitioned(number, 4), [claim(selector=profile("1g"))]),
        "partitions of two sizes": (lambda number: partitioned(number, 4), [claim(selector=profile("2g"))]),
        "shares": (lambda number: [shareable(number, 8)], [claim(capacity={"bandwidth": "1G"})]),
    }
    for nodes in (500, 5000):
        rates = {}
        for title, (slices, asked) in kinds.items():
            index = Index()
            for each in CLASSES:
                index.upsert_class(each)
            for number in range(nodes):
                index.upsert_node(node(number))
                for slice_ in slices(number):
                    index.upsert_slice(slice_)
            index.fits(asked)
            rates[title] = _rate(index, asked, 1000)
            share = rates[title] / rates["plain devices"]
            print(f"{'cycles/s with ' + title:<48} {nodes:>5} nodes {rates[title]:>7.0f}   of plain {share:.2f}")


def partitioned(number: int, gpus: int) -> list[ResourceSlice]:
    """GPUs that can be cut into seven small parts, or three larger ones; memory slices must not overlap."""
    sets, devices = [], []
    for gpu in range(gpus):
        names = [*(f"slice{at}" for at in range(8)), "engines"]
        values = {name: {"value": "7" if name == "engines" else "1"} for name in names}
        sets.append({"name": f"gpu{gpu}", "counters": values})
        for size, starts in ((1, range(7)), (2, (0, 2, 4))):
            for start in starts:
                drawn = {f"slice{at}": {"value": "1"} for at in range(start, start + size)}
                drawn["engines"] = {"value": str(size)}
                devices.append(
                    {
                        "name": f"gpu{gpu}-{size}g-{start}",
                        "attributes": {"profile": {"string": f"{size}g"}},
                        "consumesCounters": [{"counterSet": f"gpu{gpu}", "counters": drawn}],
                    }
                )
    place = {"nodeName": f"n{number}", "count": 2}
    return [
        published(f"c{number}", DRIVER, f"n{number}", [], sharedCounters=sets, **place),
        published(f"s{number}", DRIVER, f"n{number}", devices, **place),
    ]


def profile(name: str) -> str:
    return f'device.attributes["{DRIVER}"].profile == "{name}"'


def shareable(number: int, devices: int) -> ResourceSlice:
    """Devices with bandwidth for ten claims each."""
    policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}
    offered = [
        {
            "name": f"d{at}",
            "allowMultipleAllocations": True,
            "capacity": {"bandwidth": {"value": "10G", "requestPolicy": policy}},
        }
        for at in range(devices)
    ]
    return published(f"s{number}", DRIVER, f"n{number}", offered, nodeName=f"n{number}")


def _rate(index: Index, asked: list[ResourceClaim], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        outcome = index.allocate(next(iter(index.fits(asked))), asked)
        if not isinstance(outcome, Allocated):
            raise RuntimeError(f"a node that fits did not serve: {outcome}")
        for taken in outcome.taken:
            index.take(taken.devices, taken.shares)
    return times / (time.perf_counter() - start)


def hard_claims() -> None:
    """Claims that a plain search finds hard."""
    same = "x.io/root"
    short = published("s", DRIVER, "p", _roots(4, 4), nodeName="n0")
    _compare("unsatisfiable: 5 requests that share a root, 16 devices", [claim(5, same=same)], short)
    _compare("10 requests that share a root, 3 roots short by one", [claim(10, same=same)], _last_root(10, 4))
    _compare("32 requests that share a root, 3 roots short by one", [claim(32, same=same)], _last_root(32, 4))
    pairs = published("s", DRIVER, "p", _roots(16, 3), nodeName="n0")
    _compare("17 pairs, room for 16", [claim(2, same=same)] * 17, pairs)
    _compare("16 pairs, room for 16", [claim(2, same=same)] * 16, pairs)
    first = claim(12, selector=f'device.attributes["{DRIVER}"].index < 11')
    _compare(
        "12 requests for the same 11 of 32 devices", [first], published("s", DRIVER, "p", _roots(32, 1), nodeName="n0")
    )


def _roots(roots: int, size: int) -> list[dict[str, Any]]:
    return [
        {"name": f"d{root}-{at}", "attributes": {"index": {"int": root}, "x.io/root": {"string": f"r{root}"}}}
        for root in range(roots)
        for at in range(size)
    ]


def _last_root(requests: int, roots: int) -> ResourceSlice:
    extra = {"name": "extra", "attributes": {"x.io/root": {"string": f"r{roots - 1}"}}}
    return published("s", DRIVER, "p", [*_roots(roots, requests - 1), extra], nodeName="n0")


def _compare(what: str, claims: list[ResourceClaim], slice_: ResourceSlice) -> None:
    question: Question = (node(0), claims, CLASSES, [slice_])
    outcome: list[AllocationOutcome] = []
    ours = _time(seconds(lambda: outcome.append(allocate(*question))))
    _row(f"{what}: {type(outcome[0]).__name__}", ours, plain(question))


def memory() -> None:
    """What an index of 5,000 nodes with 8 devices each holds in memory, objects included."""
    for title, unique in (("equal hardware", False), ("every device unique", True)):
        gc.collect()
        before = _resident()
        index = cluster(5000, 8, unique)
        index.fits([claim()])
        gc.collect()
        print(f"{'memory, 5,000 nodes x 8 devices, ' + title:<62} {(_resident() - before) / 2**20:>9.1f} MiB")
        del index


def _resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize()


def main() -> None:
    """Print all figures."""
    for part in (memory, one_device, which_nodes_fit, cycles, consuming, hard_claims):
        part()
