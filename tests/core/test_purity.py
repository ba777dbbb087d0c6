"""The pure packages decide without a clock, chance, an event loop or a socket."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dray

SOURCE = Path(dray.__file__).parent
FORBIDDEN = {"time", "random", "asyncio", "socket", "threading", "selectors", "uuid", "secrets"}

SCHEDULE = """
import importlib.resources, logging, sys, time  # which need a clock and chance for themselves

for name in ("asyncio", "random", "socket"):
    sys.modules[name] = None  # whoever imports it gets an ImportError

from dray.core.configuration import Configuration
from dray.core.model import ClusterModel
from dray.core.attempt import Promise, Refused
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
import msgspec

def nobody(*_):
    raise RuntimeError("somebody read a clock")

for name in ("time", "monotonic", "perf_counter", "thread_time", "process_time", "sleep"):
    setattr(time, name, nobody)

def put(type_, **tree):
    model.put(msgspec.convert(tree, type_))

model = ClusterModel(FeatureGates(), Configuration().profiles)
put(DeviceClass, metadata={"name": "any"}, spec={})
for n in range(20):
    allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110"}
    put(Node, metadata={"name": f"n{n}", "uid": f"n{n}"}, status={"allocatable": allocatable})
    pool = {"name": f"n{n}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": f"n{n}", "pool": pool, "devices": [{"name": f"d{d}"} for d in range(40)]}
    put(ResourceSlice, metadata={"name": f"s{n}", "uid": f"s{n}"}, spec=spec)
exactly = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
devices = {"requests": [{"name": "r", "exactly": exactly}]}
for p in range(1000):
    put(ResourceClaim, metadata={"name": f"c{p}", "namespace": "default", "uid": f"c{p}"}, spec={"devices": devices})
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c"}], "resourceClaims": [{"name": "r", "resourceClaimName": f"c{p}"}]}
    put(Pod, metadata={"name": f"p{p}", "namespace": "default", "uid": f"p{p}"}, spec=spec)
placed = refused = 0
while (waiting := model.next()) is not None:
    decision = model.decide(model.begin(waiting))
    if isinstance(decision, Promise):
        model.place(waiting, decision)
        placed += 1
    else:
        assert isinstance(decision, Refused)
        model.refuse(waiting, decision)
        refused += 1
print(placed, refused)
"""


@pytest.mark.parametrize("package", ["cel", "allocator", "verdicts", "core"])
def test_a_pure_package_imports_no_clock_chance_loop_or_socket(package: str) -> None:
    for path in (SOURCE / package).rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in found.names] if isinstance(found, ast.Import) else []
            names += [found.module or ""] if isinstance(found, ast.ImportFrom) else []
            assert not {name.partition(".")[0] for name in names} & (FORBIDDEN - ALLOWED.get(path.name, set())), path


ALLOWED = {"result.py": {"uuid"}}  # the identities of new shares, which Kubernetes draws by lot as well


def test_a_thousand_pods_are_scheduled_without_a_clock() -> None:
    done = subprocess.run([sys.executable, "-c", SCHEDULE], capture_output=True, text=True, check=False)
    assert done.stdout == "800 200\n", done.stderr[-3000:]


LOAD = """
import random, sys, time

chance, offset = random.Random(int(sys.argv[1])), 0.0

def jumping(read):
    def reading():
        global offset
        offset += chance.choice((0.0, 0.001, 0.05, 1.0, 60.0)) if int(sys.argv[1]) else 0.0
        return read() + offset
    return reading

for name in ("time", "monotonic", "perf_counter", "thread_time", "process_time"):
    setattr(time, name, jumping(getattr(time, name)))

from dray.allocator import Turn
from dray.api.types.core import Pod
from dray.sim import Cluster, hardware
from tests.sim.test_cluster import machines, pod, template

load = random.Random(7)
cluster = Cluster([*machines(12, 6), *(template(count) for count in (1, 2, 3))])
cluster.model.state.index.defers = True  # attempts are made in parts, as in a server
for number in range(150):
    spec = {"nodeSelector": {"kubernetes.io/hostname": f"node-{load.randrange(12)}"}} if load.random() < 0.2 else {}
    cluster.submit(pod(f"p{number}", load.choice((0, 1, 1, 2, 3)), **spec), at=load.random() * 50, runs=load.random() * 40)
for _ in range(60):
    cluster.advance(1.0)
    for one in cluster.all(Pod):
        print(_, one.metadata.name, one.spec.nodeName)
    for name, why in cluster.waiting().items():
        print(_, name, sorted((reason.code.value, nodes) for reason, nodes in why.reasons.items()))
for claim_of in (cluster.explain(one.metadata.name) for one in cluster.all(Pod)):
    print([str(use.device) for use in claim_of.devices])
"""


def decisions(seed: int) -> str:
    """What is decided about a load of pods while every reading of a clock jumps by chance; seed 0: while none does."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(seed)], capture_output=True, text=True, check=False, cwd=root
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_pauses_at_any_reading_of_a_clock_change_no_decision() -> None:
    steady = decisions(0)
    assert len(steady.splitlines()) > 1000
    assert decisions(1) == steady
    assert decisions(2) == steady
