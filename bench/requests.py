"""Requests for each of 1,500 pods, over HTTP to an API server in another process, beside those that are required."""

from __future__ import annotations

import tempfile
from pathlib import Path

import uvloop

from bench._processes import api_server
from dray.benchmarks.requests import REQUIRED, count_requests
from dray.client.config import load

PODS = 1500


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, api_server(Path(directory)):
        counted = uvloop.run(count_requests(load(str(Path(directory, "kubeconfig"))), PODS))
    print(
        f"{counted.pods} of {PODS} pods placed in {counted.seconds:.1f} s ({counted.pods / counted.seconds:.0f} pods/s)"
    )
    for name, number in sorted(counted.sent.items()):
        print(f"{name}: {number / counted.pods:.3f} a pod, {REQUIRED.get(name, 0)} required")
    print(f"surplus: {counted.surplus or 'none'}")
