"""Clients that read and write ResourceClaims over HTTPS and record what they did and were told.

The value of a claim is an annotation. Each request is sent once: an answer that is lost, or that says that the server does
not know, leaves the outcome open. Left out: judging histories (`linearizable`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import aiohttp
import yaml

from tests.faults.linearizable import OK, READ, REFUSED, SWAP, UNKNOWN, WRITE, Operation
from tests.waiting import eventually

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
VALUE = "faults.example.com/value"
INITIAL = "0"
_TIMEOUT = aiohttp.ClientTimeout(total=15)


class Target:
    """One API server, or a link to some, as a kubeconfig names it."""

    def __init__(self, kubeconfig: Path, url: str = "") -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        self.url = url or str(config["clusters"][0]["cluster"]["server"])
        self.trust = ssl.create_default_context(cafile=str(kubeconfig.parent / "ca.crt"))
        self.headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}


class Recorder:
    """Clients of some servers that share a store, and the history of each claim."""

    def __init__(self, targets: Callable[[], Sequence[Target]], keys: int, dice: random.Random) -> None:
        self.histories: dict[str, list[Operation]] = defaultdict(list)
        self.is_over = False
        self._targets = targets
        self._keys = [f"register-{number}" for number in range(keys)]
        self._dice = dice
        self._numbers = itertools.count(1)
        self._known: dict[str, tuple[str, str]] = {}  # resourceVersion and value that somebody has read

    @property
    def answered(self) -> int:
        """Writes that were acknowledged."""
        return sum(
            operation.kind != READ and operation.outcome == OK
            for history in self.histories.values()
            for operation in history
        )

    async def create(self, session: aiohttp.ClientSession) -> None:
        """Make the claims; every client begins with the same value."""
        requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
        for key in self._keys:
            metadata = {"name": key, "annotations": {VALUE: INITIAL}}
            tree = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
            status, _ = await self._send(session, self._targets()[0], "POST", CLAIMS, tree)
            assert status == 201

    async def work(self, session: aiohttp.ClientSession, pause: float = 0.0) -> None:
        """Be one client until it is over: one operation after the other, with a pause in between."""
        while not self.is_over:
            key = self._dice.choice(self._keys)
            kind = self._dice.choice((READ, WRITE, SWAP))
            if not await self._act(session, self._dice.choice(self._targets()), key, kind):
                await asyncio.sleep(0.05)
            await asyncio.sleep(pause)

    async def read_all(self, session: aiohttp.ClientSession) -> None:
        """Read each claim from each server at the end, whatever it takes."""
        for key in self._keys:
            for target in self._targets():
                await eventually(partial(self._act, session, target, key, READ))

    async def _act(self, session: aiohttp.ClientSession, target: Target, key: str, kind: str) -> bool:
        """Do one operation and note it; false if the outcome is open."""
        path, begun = f"{CLAIMS}/{key}", time.monotonic()
        if kind == READ:
            status, tree = await self._send(session, target, "GET", path)
            if status != 200:
                return False  # a read without an answer says nothing
            self._note(key, Operation(READ, self._learn(key, tree), begun, time.monotonic()))
            return True
        value = str(next(self._numbers))
        metadata: dict[str, object] = {"annotations": {VALUE: value}}
        version, expected = self._known.get(key, ("", ""))
        if kind == SWAP and version:
            metadata["resourceVersion"] = version
        else:
            kind, expected = WRITE, ""
        status, tree = await self._send(session, target, "PATCH", path, {"metadata": metadata})
        ended = time.monotonic()
        if status == 200:
            self._learn(key, tree)
            self._note(key, Operation(kind, value, begun, ended, OK, expected))
        elif status == 409 and kind == SWAP:
            self._note(key, Operation(kind, value, begun, ended, REFUSED, expected))
        elif status in (401, 403, 404, 422, 429):  # it was not carried out
            return False
        else:
            self._note(key, Operation(kind, value, begun, outcome=UNKNOWN, expected=expected))
            return False
        return True

    def _learn(self, key: str, tree: dict[str, dict[str, object]]) -> str:
        metadata = tree["metadata"]
        annotations = metadata["annotations"]
        assert isinstance(annotations, dict)
        self._known[key] = str(metadata["resourceVersion"]), str(annotations[VALUE])
        return self._known[key][1]

    def _note(self, key: str, operation: Operation) -> None:
        self.histories[key].append(operation)

    async def _send(
        self, session: aiohttp.ClientSession, target: Target, method: str, path: str, body: object = None
    ) -> tuple[int, dict[str, dict[str, object]]]:
        """The code and the JSON of an answer; 0 if there is none."""
        headers = dict(target.headers)
        if body is not None:
            media = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers["Content-Type"] = media
        try:
            async with session.request(
                method,
                target.url + path,
                data=json.dumps(body) if body is not None else None,
                headers=headers,
                ssl=target.trust,
                timeout=_TIMEOUT,
            ) as answer:
                return answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ConnectionError, json.JSONDecodeError):
            return 0, {}
