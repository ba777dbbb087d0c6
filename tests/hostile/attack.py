"""`make attack`: everybody attacks at once, for two minutes, beside an honest client; and then once more.

A real cluster of simulated nodes on loopback, a process with all attackers, and the honest client here. Prints how often
each attack was made and how it was answered, what the honest client saw, and what the server kept. Ends with status 1 if
the honest client waited too long, the second attack cost more memory, something was answered with 5xx, or pods were not
scheduled. Every attack is bounded in number and pace: it is the server that is tried, not the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from dray.apiserver.security.certificates import Keys
from tests.apiserver.admission.hooking import RULE, Hook, hooking
from tests.apiserver.reading import RBAC
from tests.cli.running import Dray
from tests.hostile.attackers import OWN_ROLES, ROLES, USERS
from tests.hostile.attacks import ATTACKS, CLAIMS, DEFINITIONS, JOBS, NAMES, TEMPLATES, Attacker, named

SLOWEST_SECONDS = 0.25  # the honest client's 99th percentile
MORE_MEMORY = 0.05  # that a second attack may leave behind
CONFIG = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
HONEST = {"honest": "true"}
OBJECTS = 1000  # that lists and selectors go through
_REST_SECONDS = 35  # after an attack: what is not read is left after thirty


@dataclass
class Honest:
    """What the honest client saw."""

    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    scheduled: int = 0
    pods: int = 0

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[int(share * (len(self.seconds) - 1))] if self.seconds else 0.0


class Client:
    """Asks as the administrator, and measures."""

    def __init__(self, url: str, authority: str, token: str) -> None:
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=authority))
        headers = {"authorization": f"Bearer {token}"}
        timeout = aiohttp.ClientTimeout(60)
        self.session = aiohttp.ClientSession(url, connector=connector, headers=headers, timeout=timeout)

    async def ask(self, method: str, path: str, tree: Any = None, **headers: str) -> tuple[int, Any]:
        async with self.session.request(method, path, json=tree, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if "json" in response.content_type else text


async def honest_client(client: Client, until: float, seen: Honest) -> None:
    """Reads, writes and lists a little of its own, fifty times a second, and runs a pod with a device now and then."""
    turn = 0
    async with asyncio.TaskGroup() as group:
        while time.monotonic() < until:
            turn += 1
            if turn % 50 == 0:
                group.create_task(run_pod(client, f"honest-{int(until)}-{turn}", seen))
            began = time.perf_counter()
            try:
                code, _ = await ask_in_turn(client, turn)
                if code >= 400:
                    seen.failures[str(code)] += 1
            except (aiohttp.ClientError, TimeoutError) as error:
                seen.failures[type(error).__name__] += 1
            seen.seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)


async def ask_in_turn(client: Client, turn: int) -> tuple[int, Any]:
    if turn % 3 == 0:
        return await client.ask("GET", f"{PODS}?limit=10")
    if turn % 3 == 1:
        return await client.ask("GET", f"{CONFIG}/honest")
    patch = {"content-type": "application/merge-patch+json"}
    return await client.ask("PATCH", f"{CONFIG}/honest", {"data": {"turn": str(turn)}}, **patch)


async def run_pod(client: Client, name: str, seen: Honest) -> None:
    """A pod with a claim of its own, until it is scheduled; then it goes."""
    seen.pods += 1
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
    await client.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    container = {"name": "c", "image": "app", "resources": {"claims": [{"name": "gpu"}]}}
    claims = [{"name": "gpu", "resourceClaimName": name}]
    await client.ask(
        "POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [container], "resourceClaims": claims}}
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        code, pod = await client.ask("GET", f"{PODS}/{name}")
        if code == 200 and pod["spec"].get("nodeName"):
            seen.scheduled += 1
            break
        await asyncio.sleep(0.1)
    for path in (f"{PODS}/{name}?gracePeriodSeconds=0", f"{CLAIMS}/{name}"):
        await client.ask("DELETE", path)


async def ask_webhooks(client: Client, slow: Hook, guard: Hook) -> None:
    """A webhook that never answers in time about secrets, and one that must be asked about what the honest client writes."""
    slow.wait = 5.0
    hooks = (
        slow.configuration("slow.example.com", rules=rules("secrets"), failurePolicy="Ignore", timeoutSeconds=1),
        guard.configuration(
            "guard.example.com", rules=rules("configmaps"), objectSelector={"matchLabels": HONEST}, timeoutSeconds=2
        ),
    )
    for tree in hooks:
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        code, body = await client.ask("POST", path, tree)
        assert code == 201, body


def rules(resource: str) -> list[Any]:
    return [{**RULE, "operations": ["CREATE", "UPDATE"], "resources": [resource]}]


async def prepare(client: Client) -> None:
    for name, rule in OWN_ROLES.items():
        await client.ask("POST", f"/apis/{RBAC}/v1/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    for user, role in ROLES.items():
        subject = {"apiGroup": RBAC, "kind": "User", "name": user}
        ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": user}, "roleRef": ref, "subjects": [subject]}
        await client.ask("POST", f"/apis/{RBAC}/v1/clusterrolebindings", binding)
    await client.ask("POST", CONFIG, {"metadata": {"name": "honest", "labels": HONEST}})
    for number in range(OBJECTS):
        metadata = {"name": f"c{number}", "labels": {"a": str(number)}}
        code, body = await client.ask("POST", CONFIG, {"metadata": metadata, "data": {"x": "y" * 2000}})
        assert code in (201, 409), body


async def clear(client: Client) -> None:
    """Take away what attackers made and may keep: what is asked here is whether the server keeps more than that."""
    await client.ask("DELETE", f"{JOBS}?propagationPolicy=Background")
    for kept in (TEMPLATES, CLAIMS, PODS):
        await client.ask("DELETE", f"{kept}?gracePeriodSeconds=0")
    for number in range(NAMES):
        await client.ask("DELETE", f"{CONFIG}/{named(number)}")
    await client.ask("DELETE", f"{DEFINITIONS}/larges.hostile.example.com")


def memory(pid: int) -> float:
    """Resident memory in MiB."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


async def failures(client: Client) -> dict[str, int]:
    """Answers of 500 and above, by verb, resource and code, as the server counts them."""
    _, text = await client.ask("GET", "/metrics")
    found = {}
    for line in text.splitlines():
        if line.startswith("apiserver_request_total{") and 'code="5' in line:
            found[line.partition("{")[2].partition("}")[0]] = int(float(line.rpartition(" ")[2]))
    return found


async def longest_turn(client: Client) -> float:
    _, text = await client.ask("GET", "/metrics")
    return float(next(line for line in text.splitlines() if line.startswith("dray_loop_turn_seconds ")).split()[1])


async def attack(
    client: Client, url: str, authority: str, seconds: float
) -> tuple[Honest, dict[str, Counter[str]], float]:
    """One attack beside an honest client: what it saw, how the attacks were answered, and the longest turn."""
    arguments = [sys.executable, "-m", "tests.hostile.attack", "--attack", url, authority, "--seconds", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    process = await asyncio.create_subprocess_exec(
        "nice", "-n", "10", *arguments, stdout=subprocess.PIPE, env=environment
    )
    seen, turns = Honest(), 0.0
    honest = asyncio.ensure_future(honest_client(client, time.monotonic() + seconds, seen))
    while not honest.done():
        await asyncio.wait({honest}, timeout=10)
        turns = max(turns, await longest_turn(client))
    await honest
    output, _ = await process.communicate()
    answers = {name: Counter(codes) for name, codes in json.loads(output or b"{}").items()}
    return seen, answers, turns


async def attack_only(url: str, authority: str, seconds: float) -> None:
    """The process of the attackers: prints how each attack was answered."""
    attacker = Attacker(url, authority, time.monotonic() + seconds)
    async with asyncio.TaskGroup() as group:
        for name, one in ATTACKS.items():
            group.create_task(attacker.repeat(name, one))
    await attacker.aclose()
    print(json.dumps(attacker.answers))


async def main(seconds: float) -> int:
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        (directory / "users.csv").write_text(USERS)
        up = (
            "up",
            "--dir",
            directory / "d",
            "--port",
            "0",
            "--nodes",
            "3",
            "--token-auth-file",
            directory / "users.csv",
        )
        with Dray(*up, log=directory / "log") as dray:
            url = next(word for line in dray.lines for word in line.split() if word.startswith("https://")).rstrip(",")
            authority, token = str(directory / "d" / "ca.crt"), (directory / "d" / "admin.token").read_text().strip()
            client = Client(url, authority, token)
            keys = Keys.open(directory / "keys")
            try:
                async with hooking(keys) as slow, hooking(keys) as guard:
                    await ask_webhooks(client, slow, guard)
                    return await report(client, url, authority, dray.process.pid, seconds)
            finally:
                await client.session.close()


async def report(client: Client, url: str, authority: str, pid: int, seconds: float) -> int:
    await prepare(client)
    print(f"memory before: {memory(pid):.0f} MiB")
    kept, problems = [], []
    for number in (1, 2):
        seen, answers, turn = await attack(client, url, authority, seconds)
        await clear(client)
        await asyncio.sleep(_REST_SECONDS if seconds >= 30 else 2)
        kept.append(memory(pid))
        print_attack(number, answers)
        p50, p99, most = (1000 * seen.percentile(share) for share in (0.5, 0.99, 1))
        print(f"honest client: {len(seen.seconds)} requests, p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {most:.0f} ms")
        print(f"  failures: {dict(seen.failures) or 'none'}; pods scheduled: {seen.scheduled} of {seen.pods}")
        print(f"  longest turn of the event loop: {1000 * turn:.0f} ms; memory: {kept[-1]:.0f} MiB\n")
        if p99 > 1000 * SLOWEST_SECONDS:
            problems.append(f"attack {number}: the honest client's p99 was {p99:.0f} ms")
        if seen.failures or seen.scheduled < seen.pods:
            problems.append(f"attack {number}: {dict(seen.failures)}, {seen.pods - seen.scheduled} pods not scheduled")
    if kept[1] > kept[0] * (1 + MORE_MEMORY):
        problems.append(f"the second attack left {kept[1] - kept[0]:.0f} MiB more behind")
    if found := await failures(client):
        problems.append(f"answers of 5xx: {found}")
    print("\n".join(f"PROBLEM: {problem}" for problem in problems) or "no problem found")
    return 1 if problems else 0


def print_attack(number: int, answers: dict[str, Counter[str]]) -> None:
    print(f"\nattack {number:<2} {'':32} {'times':>7}  answers")
    for name, codes in answers.items():
        told = ", ".join(f"{code}: {count}" for code, count in sorted(codes.items()))
        print(f"  {name:40} {sum(codes.values()):7}  {told}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--attack", nargs=2, metavar=("URL", "AUTHORITY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        asyncio.run(attack_only(*options.attack, options.seconds))
    else:
        sys.exit(asyncio.run(main(options.seconds)))
