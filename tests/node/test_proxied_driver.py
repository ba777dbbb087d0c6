"""A driver that is not on the node: sockets below the kubelet's directories come into being by `exec` in a pod, their
connections arrive through port-forward, and CDI files are written by `exec` too. Suites for kubelets reach theirs so."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dray.testing import Cluster
from tests.kubectls import Kubectl, kubectl_of
from tests.node.driver import NAME, VENDOR, Driver
from tests.node.test_runtimes import unavailable
from tests.ports import free_port
from tests.waiting import SECONDS, eventually, within

KUBELET = Path("/var/lib/kubelet")
ENDPOINT, REGISTRATION = KUBELET / "plugins" / NAME / "dra.sock", KUBELET / "plugins_registry" / f"{NAME}-reg.sock"
# Pairs each connection to a socket with one to a port, and copies both ways.
PROXY = """
import socket, sys, threading
there, here = socket.socket(socket.AF_UNIX), socket.create_server(("127.0.0.1", int(sys.argv[2])))
there.bind(sys.argv[1])
there.listen()
print("ready", flush=True)
def copy(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass
while True:
    one, other = there.accept()[0], here.accept()[0]
    for pair in ((one, other), (other, one)):
        threading.Thread(target=copy, args=pair, daemon=True).start()
"""
PATHS = {"data": str(ENDPOINT.parent), "registry": str(REGISTRATION.parent), "cdi": "/var/run/cdi"}
LABELS = {"app.kubernetes.io/instance": NAME}


def proxies() -> dict[str, Any]:
    """One pod a node, with the directories of kubelet and CDI, that does nothing by itself."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["agent-0"]}]}
    apart = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": "kubernetes.io/hostname"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    mounts = [{"name": name, "mountPath": "/cdi" if name == "cdi" else path} for name, path in PATHS.items()]
    spec = {
        "affinity": {
            "podAntiAffinity": {required: [apart]},
            "nodeAffinity": {required: {"nodeSelectorTerms": [term]}},
        },
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "pause",
                "image": "x",
                "command": ["/bin/sh", "-c", "exec sleep 100000"],
                "securityContext": {"privileged": True},
                "volumeMounts": mounts,
            }
        ],
        "volumes": [{"name": n, "hostPath": {"path": p, "type": "DirectoryOrCreate"}} for n, p in PATHS.items()],
    }
    template = {"metadata": {"labels": LABELS}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "proxy"},
        "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template},
    }


def devices() -> list[dict[str, Any]]:
    selector = {"cel": {"expression": f'device.driver == "{NAME}"'}}
    pool = {"name": "pool", "generation": 1, "resourceSliceCount": 1}
    slice_ = {"driver": NAME, "nodeName": "agent-0", "pool": pool, "devices": [{"name": "gpu-0"}]}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    api = {"apiVersion": "resource.k8s.io/v1"}
    return [
        {**api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}},
        {**api, "kind": "ResourceSlice", "metadata": {"name": "gpus"}, "spec": slice_},
        {**api, "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}},
    ]


USER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "user"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        "containers": [
            {
                "name": "main",
                "image": "x",
                "command": ["sleep", "1000"],
                "resources": {"claims": [{"name": "gpu"}]},
            }
        ],
    },
}


class ProxiedDriver(Driver):
    """Writes its CDI files in the pod."""

    kubectl: Kubectl
    pod: str

    def write_spec(self, uid: str) -> None:
        spec = {"cdiVersion": "0.6.0", "kind": VENDOR, "devices": [{"name": uid, "containerEdits": {"env": ["GPU=1"]}}]}
        file = f"/cdi/{NAME}-{uid}.json"
        self.kubectl("exec", "-i", self.pod, "--", "/bin/sh", "-c", f"cat >{file}.tmp", stdin=json.dumps(spec))
        self.kubectl("exec", self.pod, "--", "mv", f"{file}.tmp", file)


@contextmanager
def begun(kubectl: Kubectl, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*kubectl.words, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=kubectl.environment,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@asynccontextmanager
async def listening(kubectl: Kubectl, pod: str, endpoint: Path, own: Path) -> AsyncIterator[None]:
    """Have a socket on the node whose connections arrive at one of this process."""
    port = free_port()
    command = [sys.executable, "-I", "-S", "-c", PROXY, str(endpoint), str(port)]
    with begun(kubectl, "exec", pod, "--", *command) as proxy, ExitStack() as more:
        assert await first_line(proxy) == "ready\n"
        line = await first_line(more.enter_context(begun(kubectl, "port-forward", f"pod/{pod}", f":{port}")))
        relaying = Relay(int(line.split("127.0.0.1:")[1].split(" ")[0]), own)
        relaying.start()
        try:
            yield
        finally:
            relaying.over.set()
    await asyncio.to_thread(relaying.join)
    kubectl("exec", pod, "--", "rm", "-f", str(endpoint))


async def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return await within(asyncio.to_thread(process.stdout.readline))


class Relay(threading.Thread):
    """Waits on a connection until the node speaks, then hands it on, and waits on the next."""

    def __init__(self, port: int, own: Path) -> None:
        super().__init__()
        self.over = threading.Event()
        self._port = port
        self._own = own

    def run(self) -> None:
        served: list[threading.Thread] = []
        while not self.over.wait(0.01):
            with suppress(OSError):
                connection = socket.create_connection(("127.0.0.1", self._port))
                first = connection.recv(65536)
                if not first:
                    connection.close()
                    continue
                served.append(threading.Thread(target=self._serve, args=(connection, first)))
                served[-1].start()
        for thread in served:
            thread.join()

    def _serve(self, connection: socket.socket, first: bytes) -> None:
        with connection, socket.socket(socket.AF_UNIX) as driver:
            driver.connect(str(self._own))
            driver.sendall(first)
            back = threading.Thread(target=copy, args=(driver, connection))
            back.start()
            copy(connection, driver)
            back.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("name", ["recent", "recent, SPDY"])
async def test_a_driver_serves_from_elsewhere_through_a_pod(name: str, root: Path, hasty: None) -> None:
    if why := unavailable("bwrap"):
        pytest.skip(why)
    with Cluster(agents=1, runtime="bwrap") as cluster:
        kubectl = kubectl_of(name, cluster.kubeconfig)
        cluster.apply(proxies())
        await asyncio.to_thread(
            kubectl, "wait", "--for=jsonpath={.status.availableReplicas}=1", "rs/proxy", f"--timeout={SECONDS:g}s"
        )
        [pod] = [one["metadata"]["name"] for one in cluster.list("pods")]
        driver = ProxiedDriver(root)
        driver.kubectl, driver.pod = kubectl, pod
        await driver.start()
        own = driver.endpoint, driver.registration
        driver.endpoint = ENDPOINT  # what it says at registration
        try:
            async with listening(kubectl, pod, ENDPOINT, own[0]), listening(kubectl, pod, REGISTRATION, own[1]):
                await within(driver.registered.wait())
                for tree in devices():
                    cluster.apply(tree)
                cluster.apply(USER)
                await eventually(lambda: cluster.get("pods", "user")["status"].get("phase") == "Running")
                assert "GPU=1" in (await asyncio.to_thread(kubectl, "exec", "user", "--", "env")).splitlines()
                assert len(driver.prepared) == 1
                await asyncio.to_thread(kubectl, "delete", "pod", "user")
                await eventually(lambda: not driver.prepared)
            await eventually(lambda: not cluster.list("resourceslices"))
        finally:
            driver.registration = own[1]
            await driver.stop()
