"""A day of virtual time: seconds and memory of a replay with 1,500 nodes and with ten times as many, each in a process of
its own; and how long `dray what-if --how-many` takes on 5,000 nodes, from the file to the answer."""

from __future__ import annotations

import multiprocessing
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from dray.assembly.collector import without_collections
from dray.recordings.history import History, HistoryFile
from dray.replay.replaying import Replay
from dray.replay.timeline import timeline_of
from dray.replay.traces import TraceNode, TracePod, events_of, recording_of
from dray.replay.traces.generator import LoadShape, generate

CLASS = "gpu.example.com"
DEVICES = 8
SIZES = {1: 40.0, 2: 20.0, 4: 20.0, 8: 20.0}
LOAD = 0.95  # of the devices, were they never fragmented


def machines(count: int) -> list[TraceNode]:
    return [TraceNode(f"node-{number}", DEVICES, 64_000, 262_144) for number in range(count)]


def day(nodes: int, pods: int) -> list[TracePod]:
    mean = sum(size * weight for size, weight in SIZES.items()) / sum(SIZES.values())
    runtime = LOAD * nodes * DEVICES * 86400.0 / (pods * mean)
    return generate(LoadShape(pods, mean_runtime=runtime, sizes=SIZES, seed=1))


def live_through(nodes: int, pods: int) -> None:
    with without_collections():
        started = time.perf_counter()
        load = day(nodes, pods)
        made = recording_of(load, machines(nodes), (), CLASS, "bench")
        timeline = timeline_of(History(made, tuple(events_of(load))))
        prepared, working = time.perf_counter(), time.process_time()
        figures = Replay(timeline, is_free=True).run().figures
        seconds, worked = time.perf_counter() - prepared, time.process_time() - working
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{nodes} nodes x {DEVICES} devices, {pods} pods over a day: {seconds:.0f} s ({worked:.0f} s of one core, "
        f"{1e6 * worked / pods:.0f} us a pod) and {prepared - started:.0f} s to make them, {memory:.0f} MB; utilisation {figures.utilisation.mean:.0%}, "
        f"{figures.placed} placed, mean waiting {figures.waiting.mean:.0f} s",
        flush=True,
    )


def how_many(nodes: int) -> None:
    request = {"name": "gpus", "exactly": {"deviceClassName": CLASS}}
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "one"}}
    with tempfile.TemporaryDirectory() as name:
        recording, manifest = Path(name, "cluster.json"), Path(name, "claim.yaml")
        HistoryFile(str(recording), recording_of([], machines(nodes), (), CLASS, "bench")).close()
        manifest.write_text(yaml.safe_dump({**claim, "spec": {"devices": {"requests": [request]}}}))
        words = ["what-if", "-f", str(manifest), "--recording", str(recording), "--how-many"]
        started = time.perf_counter()
        said = subprocess.run([sys.executable, "-m", "dray", *words], capture_output=True, text=True, check=True).stdout
        seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = next(line for line in said.splitlines() if line.startswith("it fits"))
    print(
        f"what-if --how-many on {nodes} nodes: {seconds:.2f} s ({used.ru_utime + used.ru_stime:.2f} s of one core); "
        f"{found.partition(';')[0]}",
        flush=True,
    )


def main() -> None:
    how_many(5000)
    for nodes, pods in ((1500, 10_000), (15_000, 100_000)):
        process = multiprocessing.get_context("spawn").Process(target=live_through, args=(nodes, pods))
        process.start()
        process.join()
