"""`dray up` has one worker process, whatever is busy in it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest

from dray.assembly import ClusterOptions, dashboard
from dray.assembly.parts import plan_of
from dray.assembly.server import StartedServer, serve_until
from dray.background import Background, Computation
from dray.sim.hardware import CLASS
from tests import objects
from tests.allocator.building import slowly
from tests.apiserver.test_steps import ADMISSION, CLASSES, CONFIG_MAPS, DEFINITIONS, SLOW, THINGS, selecting, thing
from tests.apiserver.test_steps import definition as rules_of
from tests.waiting import eventually
from tests.web.serving import Browser

KINDS = {"searches", "selectors", "schemas", "policies", "questions"}
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
T = TypeVar("T")


def workers() -> Iterator[int]:
    """The worker processes of this process."""
    for children in Path("/proc/self/task").glob("*/children"):
        try:
            for child in map(int, children.read_text().split()):
                if b"dray.background.worker" in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield child
        except OSError:  # a thread or a process that has ended meanwhile
            continue


async def test_searches_selectors_schemas_policies_and_questions_share_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dray.apiserver.steps.QUICK", -1.0
    )  # nothing is quick: all expressions go to the worker process
    monkeypatch.setattr("dray.apiserver.write.validators.AT_ONCE", 0)
    under_way, together, done, seen = list[str](), set[str](), set[str](), set[int]()
    compute = Background.compute

    async def watched(
        self: Background, computation: Computation[T], kind: str, user: str = "", job: Hashable | None = None
    ) -> T:
        under_way.append(kind)
        together.update(under_way if len({*under_way}) > 1 else ())
        try:
            return await compute(self, computation, kind, user, job)
        finally:
            seen.update(workers())
            under_way.remove(kind)
            done.add(kind)

    monkeypatch.setattr(Background, "compute", watched)
    options = ClusterOptions(dir=tmp_path / "d", port=0, store="memory", insecure=True, nodes=1)
    stopping, tasks = asyncio.Event(), list[asyncio.Task[None]]()

    def ready(started: StartedServer) -> None:
        code = dashboard.address(started.running, started.url).partition("#code=")[2]
        tasks.append(asyncio.create_task(busy(started.url, code)))

    async def busy(url: str, code: str) -> None:
        try:
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
                page = Browser(session, url)
                await page.sign_in(code=code)
                await prepare(session, url)
                async with page.page():
                    await eventually(lambda: asked(session, url, page))
        finally:
            stopping.set()

    async def asked(session: aiohttp.ClientSession, url: str, page: Browser) -> bool:
        """Ask for everything at once. Returns whether all kinds of work were done, and beside others."""
        name = f"x{next(numbers)}"
        writes = [
            (CLASSES, selecting(name, f"device.driver != '{name}'")),
            (THINGS, thing(name, size=3)),
            (CONFIG_MAPS, {"metadata": {"name": name}}),
            (
                CLAIMS,
                objects.claim(name, objects.request(device_class=CLASS, selectors=[slowly(f"'{name}' != ''", 30)])),
            ),
            (PODS, objects.pod(name, claims=[name])),
        ]
        await asyncio.gather(page.ask("fits"), *(posted(session, f"{url}{path}", tree) for path, tree in writes))
        return done >= KINDS and together >= KINDS

    numbers = iter(range(1_000_000))
    assert await serve_until(stopping, options, plan_of(options), ready) == 0
    await asyncio.gather(*tasks)
    assert len(seen) == 1


async def posted(session: aiohttp.ClientSession, url: str, tree: Any) -> None:
    async with session.post(url, json=tree) as answer:
        assert answer.status == 201, await answer.text()


async def prepare(session: aiohttp.ClientSession, url: str) -> None:
    """A definition with rules, and a policy about config maps."""
    sized = {"type": "object", "properties": {"size": {"type": "integer"}}}
    await posted(
        session,
        f"{url}{DEFINITIONS}",
        rules_of(sized, ["self.size > 0"]),
    )

    async def is_served() -> bool:
        async with session.get(f"{url}{THINGS}") as answer:
            return answer.status == 200

    await eventually(is_served)
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    spec: Any = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": SLOW}]}
    await posted(session, f"{url}{ADMISSION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    spec = {"policyName": "p", "validationActions": ["Deny"]}
    await posted(
        session, f"{url}{ADMISSION}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": spec}
    )
