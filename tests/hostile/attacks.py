"""The attacks of `make attack`: each is one attempt, made again and again by one attacker until the time is up."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from tests.hostile.attackers import CONFIG, DISGUISED, PODS, head

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NAMES = 20  # of objects that attackers make
BOMBS = 10  # patches at once: with the pause between two attempts, about a hundred a second
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
SECRETS = "/api/v1/namespaces/default/secrets"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
SELECTOR = ",".join(f"k{number}!=v" for number in range(990))
JOBS = "/apis/batch/v1/namespaces/default/jobs"
MOST_PODS = 30_000  # of one owner; an owner that wants more goes when it has these
_FLOOD_LOOKS = 10  # a second apart
_PAUSE_SECONDS = 0.05  # between two attempts of one attack
_SLOW_SECONDS = 5.0  # that a connection is held without being read or spoken on

Attack = Callable[["Attacker"], Awaitable[str]]


class Attacker:
    """Connections to one server, and how what was tried on them was answered."""

    def __init__(self, url: str, authority: str, until: float) -> None:
        self._url = url
        self._until = until
        self._tls = ssl.create_default_context(cafile=authority)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=64)
        self._session = aiohttp.ClientSession(url, connector=connector, timeout=aiohttp.ClientTimeout(60))
        self.answers: dict[str, Counter[str]] = {}

    async def repeat(self, name: str, attack: Attack) -> None:
        answers = self.answers.setdefault(name, Counter())
        while time.monotonic() < self._until:
            try:
                answers[await attack(self)] += 1
            except (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError):
                answers["closed"] += 1
            await asyncio.sleep(_PAUSE_SECONDS)

    async def aclose(self) -> None:
        await self._session.close()

    async def ask(self, user: str, method: str, path: str, body: Any = None, **headers: str) -> str:
        """The code of an answer, which is read."""
        sent = {"authorization": f"Bearer {user}-token", "content-type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        async with self._session.request(method, path, data=data, headers=sent) as response:
            await response.read()
            return str(response.status)

    async def pods(self, user: str) -> int:
        """How many pods there are."""
        headers = {"authorization": f"Bearer {user}-token"}
        async with self._session.get(f"{PODS}?limit=1", headers=headers) as response:
            page = await response.json()
            return len(page.get("items", ())) + int(page.get("metadata", {}).get("remainingItemCount", 0))

    async def speak(self, *said: bytes, hold: float = 0.0, deaf: bool = False) -> str:
        """Say something on a connection of its own, hold it, and tell the code of the answer or that there is none."""
        host, _, port = self._url.removeprefix("https://").partition(":")
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
        reader, writer = await asyncio.open_connection(sock=sock, ssl=self._tls, server_hostname="localhost")
        try:
            if deaf:
                writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport can
            for piece in said:
                writer.write(piece)
                await writer.drain()
            await asyncio.sleep(hold)
            if deaf:
                return "not read"
            line = await asyncio.wait_for(reader.readline(), 30)
            return line.split()[1].decode() if line else "closed"
        finally:
            writer.transport.abort()  # type: ignore[attr-defined]


def named(number: int) -> str:
    return f"a{number}"


def name() -> str:
    return named(random.randrange(NAMES))


async def endless_header(attacker: Attacker) -> str:
    return await attacker.speak(b"GET / HTTP/1.1\r\nx: ", *[b"a" * 65536] * 16)


async def slow_heads(attacker: Attacker) -> str:
    found = await asyncio.gather(
        *(attacker.speak(b"GET /version HTTP/1.1\r\nx: ", hold=_SLOW_SECONDS, deaf=True) for _ in range(20))
    )
    return found[0]


async def half_bodies(attacker: Attacker) -> str:
    said = head("POST", CONFIG, "", content_length=1000) + b"{"
    return (await asyncio.gather(*(attacker.speak(said) for _ in range(20))))[0]


async def bad_tokens(attacker: Attacker) -> str:
    return await attacker.speak(head("GET", PODS, authorization="Bearer " + "W1tb" * 10_000 + ".e30.e30"))


async def pipelined(attacker: Attacker) -> str:
    return await attacker.speak(head("GET", "/version") * 2000)


async def readiness(attacker: Attacker) -> str:
    return (await asyncio.gather(*(attacker.ask("", "GET", "/readyz") for _ in range(20))))[0]


async def disguised_paths(attacker: Attacker) -> str:
    return await attacker.speak(head("GET", random.choice(DISGUISED), "viewer"))


def unread(user: str, path: str, **headers: object) -> Attack:
    async def attack(attacker: Attacker) -> str:
        said = head("GET", path, user, **headers)
        return (await asyncio.gather(*(attacker.speak(said, hold=_SLOW_SECONDS, deaf=True) for _ in range(15))))[0]

    return attack


def asking(user: str, method: str, path: str, make: Callable[[], Any] = lambda: None, **headers: str) -> Attack:
    async def attack(attacker: Attacker) -> str:
        return await attacker.ask(user, method, path, make(), **headers)

    return attack


async def large_objects(attacker: Attacker) -> str:
    tree = {"metadata": {"name": name()}, "data": {"x": "y" * 1_000_000}}
    code = await attacker.ask("editor", "POST", CONFIG, tree)
    return code if code != "409" else await attacker.ask("editor", "PUT", f"{CONFIG}/{tree['metadata']['name']}", tree)  # type: ignore[index]


async def editors_half_bodies(attacker: Attacker) -> str:
    said = head("POST", CONFIG, "editor", content_length=1000) + b"{"
    return (await asyncio.gather(*(attacker.speak(said, hold=_SLOW_SECONDS, deaf=True) for _ in range(20))))[0]


def costly_claim() -> Any:
    brackets = "(" * 100 + "true" + ")" * 100
    expression = " && ".join([brackets, *(f'device.attributes["a.com"].x{n} == {n}' for n in range(150))])
    selectors = [{"cel": {"expression": expression[:9900]}} for _ in range(8)]
    requests = [{"name": "r0", "exactly": {"deviceClassName": "gpu.example.com", "selectors": selectors}}]
    return {"metadata": {"name": name()}, "spec": {"devices": {"requests": requests}}}


def deep() -> str:
    return '{"metadata":{"name":"deep"},"data":' + '{"a":' * 900 + "{}" + "}" * 901


def bad_labels() -> Any:
    return {"metadata": {"name": "bad", "labels": {f"not ok {n}": "x" * 100 for n in range(9000)}}}


def long_patch() -> Any:
    return [{"op": "add", "path": f"/data/n{n}", "value": "v"} for n in range(9000)]


def copy_bomb(operations: int = 41) -> Any:
    """A JSON Patch that copies a list into itself again and again, so that it doubles with each operation."""
    copies = [{"op": "copy", "from": "/x", "path": "/x/-"}] * (operations - 1)
    return [{"op": "add", "path": "/x", "value": [1]}, *copies]


async def copy_bombs(attacker: Attacker) -> str:
    """Patches of two kilobytes that copy a list into itself forty times."""
    bomb = json.dumps(copy_bomb())
    asked = (attacker.ask("editor", "PATCH", f"{CONFIG}/c1", bomb, **JSON_PATCH) for _ in range(BOMBS))
    return (await asyncio.gather(*asked))[0]


async def slow_webhook(attacker: Attacker) -> str:
    """Writes that a slow webhook is asked about."""
    tree = {"metadata": {"generateName": "slow-"}}
    asked = (attacker.ask("editor", "POST", f"{SECRETS}?dryRun=All", tree) for _ in range(40))
    return (await asyncio.gather(*asked))[0]


async def merged_again(attacker: Attacker) -> str:
    """One container of fifteen hundred variables, merged eight hundred times by a patch of 40 KiB."""
    variables = [{"name": f"E{number}"} for number in range(1500)]
    spec = {"containers": [{"name": "c", "image": "i", "env": variables}]}
    await attacker.ask("editor", "POST", TEMPLATES, {"metadata": {"name": "merged"}, "template": {"spec": spec}})
    same = {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "E0"}]}] * 800}}}
    media = "application/strategic-merge-patch+json"
    return await attacker.ask("editor", "PATCH", f"{TEMPLATES}/merged", same, content_type=media)


def long_yaml() -> str:
    return "metadata: {name: yaml}\ndata:\n" + "".join(f"  k{n}: v\n" for n in range(9000))


def variables(value: str) -> list[Any]:
    return [{"name": f"E{number}", "value": value} for number in range(6000)]


def template(value: str) -> Any:
    return {"spec": {"containers": [{"name": "c", "image": "i", "env": variables(value)}]}}


async def large_applies(attacker: Attacker) -> str:
    tree = {"apiVersion": "v1", "kind": "PodTemplate", "template": template(name())}
    path = f"{TEMPLATES}/{name()}?fieldManager={name()}&force=true"
    return await attacker.ask("editor", "PATCH", path, tree, content_type="application/apply-patch+yaml")


async def strategic_merges(attacker: Attacker) -> str:
    path, merged = f"{TEMPLATES}/{name()}", {"template": template(name())}
    return await attacker.ask("editor", "PATCH", path, merged, content_type="application/strategic-merge-patch+json")


def large_pod() -> Any:
    return {"metadata": {"name": "large"}, **template("v")}


async def pods_with_many_rules(attacker: Attacker) -> str:
    """A pod that wants to be away from a hundred others; when it is there already, it goes."""
    hostname = "kubernetes.io/hostname"
    terms = [{"topologyKey": hostname, "labelSelector": {"matchLabels": {"a": f"b{n}"}}} for n in range(100)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = {"metadata": {"name": name()}, "spec": {"containers": [{"name": "c", "image": "i"}], "affinity": affinity}}
    code = await attacker.ask("editor", "POST", PODS, pod)
    if code == "409":
        await attacker.ask("editor", "DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")  # type: ignore[index]
    return code


async def pods_by_the_thousand(attacker: Attacker) -> str:
    """A Job that wants as many pods as there may be numbers, for ten seconds; then it goes, and its pods after it."""
    container = {"name": "c", "image": "i"}
    spec = {"restartPolicy": "Never", "nodeSelector": {"flood": "none"}, "containers": [container]}
    job = {"metadata": {"name": "flood"}, "spec": {"parallelism": 2_147_483_647, "template": {"spec": spec}}}
    code = await attacker.ask("editor", "POST", JOBS, job)
    for _ in range(_FLOOD_LOOKS):
        await asyncio.sleep(1)
        if await attacker.pods("editor") >= MOST_PODS:
            break
    await attacker.ask("editor", "DELETE", f"{JOBS}/flood?propagationPolicy=Background")
    return code


def definition(properties: dict[str, Any]) -> Any:
    spec = {"type": "object", "properties": properties}
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}  # type: ignore[assignment]
    names = {"plural": "larges", "kind": "Large"}
    whole = {"group": "hostile.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "larges.hostile.example.com"}, "spec": whole}


async def large_definitions(attacker: Attacker) -> str:
    """A definition of a megabyte; when it is there already, it goes."""
    code = await attacker.ask("definer", "POST", DEFINITIONS, LARGE_DEFINITION)
    if code == "409":
        await attacker.ask("definer", "DELETE", f"{DEFINITIONS}/larges.hostile.example.com")
    return code


def costly_patterns() -> Any:
    return definition({f"f{n}": {"type": "string", "pattern": f"^(a|b|c{n})*[a-z]{{1,900}}$"} for n in range(200)})


LARGE_DEFINITION = json.dumps(definition({f"f{number}": {"type": "string"} for number in range(36_000)}))
MERGE, JSON_PATCH = {"content_type": "application/merge-patch+json"}, {"content_type": "application/json-patch+json"}
ATTACKS: dict[str, Attack] = {
    "nobody: endless headers": endless_header,
    "nobody: slow heads": slow_heads,
    "nobody: half bodies": half_bodies,
    "nobody: bad tokens": bad_tokens,
    "nobody: requests in one go": pipelined,
    "nobody: readiness": readiness,
    "viewer: unread lists": unread("viewer", CONFIG),
    "viewer: unread watches": unread("viewer", f"{CONFIG}?watch=1"),
    "viewer: unread protobuf": unread("viewer", CONFIG, accept="application/vnd.kubernetes.protobuf"),
    "viewer: unread tables": unread("viewer", CONFIG, accept="application/json;as=Table;v=v1;g=meta.k8s.io"),
    "viewer: watches with long selectors": unread("viewer", f"{CONFIG}?watch=1&labelSelector={SELECTOR}"),
    "viewer: lists with long selectors": asking("viewer", "GET", f"{CONFIG}?limit=1&labelSelector={SELECTOR}"),
    "viewer: lists as YAML": asking("viewer", "GET", f"{CONFIG}?limit=200", accept="application/yaml"),
    "viewer: paths in disguise": disguised_paths,
    "viewer: writes": asking("viewer", "POST", CONFIG, lambda: {"metadata": {"name": "no"}}),
    "editor: large objects": large_objects,
    "editor: half bodies": editors_half_bodies,
    "editor: deep objects": asking("editor", "POST", CONFIG, deep),
    "editor: thousands of bad labels": asking("editor", "POST", CONFIG, bad_labels),
    "editor: long patches": asking("editor", "PATCH", f"{CONFIG}/c1?dryRun=All", long_patch, **JSON_PATCH),
    "editor: copies of copies": copy_bombs,
    "editor: one container merged again": merged_again,
    "editor: writes through a slow webhook": slow_webhook,
    "editor: long YAML": asking("editor", "POST", f"{CONFIG}?dryRun=All", long_yaml, content_type="application/yaml"),
    "editor: costly claims": asking("editor", "POST", f"{CLAIMS}?dryRun=All", costly_claim),
    "editor: large applies": large_applies,
    "editor: strategic merges": strategic_merges,
    "editor: thousands of variables": asking("editor", "POST", f"{PODS}?dryRun=All", large_pod),
    "editor: pods with many rules": pods_with_many_rules,
    "editor: pods by the thousand": pods_by_the_thousand,
    "definer: large definitions": large_definitions,
    "definer: costly patterns": asking("definer", "POST", f"{DEFINITIONS}?dryRun=All", costly_patterns),
    "node: all secrets": asking("node", "GET", "/api/v1/secrets?fieldSelector=metadata.name%3Ddb"),
    "node: status of others": asking("node", "PATCH", "/api/v1/nodes/node-0/status", lambda: {"status": {}}, **MERGE),
    "node: mirror pods": asking("node", "POST", PODS, lambda: {"metadata": {"name": "m"}, "spec": {"nodeName": "n1"}}),
    "roles: aggregate": asking(
        "roles",
        "PATCH",
        f"{CLUSTER_ROLES}/cluster-admin",
        lambda: {"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}},
        **MERGE,
    ),
}
