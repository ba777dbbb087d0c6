"""`dray controller-manager`: alone, against a server in another process."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from dray.api.types.core import ConfigMap, Namespace, Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimTemplate
from dray.client.config import load
from dray.client.http import Http
from tests.cli.components import counts, fetched, server
from tests.cli.running import Dray, outcome
from tests.e2e.objects import pod, template
from tests.waiting import eventually


async def test_it_makes_claims_empties_namespaces_and_tells_how_it_is(tmp_path: Path) -> None:
    authority = tmp_path / "authority"
    authority.write_text("the authority")
    with server(tmp_path) as kubeconfig:
        async with Http(load(str(kubeconfig))) as client:
            await client.create(Namespace, {"metadata": {"name": "team"}})
            await client.create(ResourceClaimTemplate, template("t", namespace="team"))
            await client.create(Pod, pod("p", templates=["t"], namespace="team"))
            options = ("--kubeconfig", kubeconfig, "--port", "0", "--root-ca-file", authority, "-v", "4")
            with Dray("controller-manager", *options) as manager:

                async def made() -> bool:
                    return len((await client.list(ResourceClaim, "team")).items) == 1

                async def published() -> bool:
                    maps = (await client.list(ConfigMap, "team")).items
                    return any(one.data.get("ca.crt") == "the authority" for one in maps)

                async def gone() -> bool:
                    return "team" not in [one.metadata.name for one in (await client.list(Namespace)).items]

                await eventually(made)
                await eventually(published)
                assert fetched(manager, "/healthz") == "ok"
                await counts(
                    manager, "resourceclaim_controller_create_total 1.0", "resourceclaim_controller_resource_claims 1.0"
                )
                await client.delete(Namespace, "team")
                await eventually(gone)
                assert manager.stop(signal.SIGTERM) == 0
                assert manager.process.stderr is not None
                said = manager.process.stderr.read()
    assert "created claim team/p-t0-" in said
    assert "Traceback" not in said


async def test_only_the_chosen_controllers_run(tmp_path: Path) -> None:
    with server(tmp_path) as kubeconfig:
        async with Http(load(str(kubeconfig))) as client:
            await client.create(ResourceClaimTemplate, template("t"))
            await client.create(Pod, pod("p", templates=["t"]))
            await client.create(Namespace, {"metadata": {"name": "team"}})
            options = ("--kubeconfig", kubeconfig, "--port", "-1", "--no-leader-elect")
            with Dray("controller-manager", *options, "--controllers", "namespace,garbage-collector") as manager:
                await client.delete(Namespace, "team")

                async def gone() -> bool:
                    return "team" not in [one.metadata.name for one in (await client.list(Namespace)).items]

                await eventually(gone)
                assert manager.stop(signal.SIGTERM) == 0
            assert not (await client.list(ResourceClaim)).items


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--controllers", "nope"],
            "dray controller-manager: controllers: unknown name 'nope', expected one of cronjob, daemonset",
        ),
        (["--root-ca-file", "/nonexistent/ca"], "/nonexistent/ca"),
        (["--feature-gates", "Nope"], "expected NAME=true or NAME=false"),
        (["--port", "70000"], "70000"),
    ],
)
def test_options_that_make_no_sense_are_explained(tmp_path: Path, arguments: list[str], expected: str) -> None:
    with server(tmp_path) as kubeconfig:
        code, said = outcome(
            "controller-manager", "--kubeconfig", kubeconfig, "--port", "-1", "--no-leader-elect", *arguments
        )
    assert code == (2 if "/nonexistent" in expected else 1)
    assert expected in said
    assert "ready" not in said
    assert "Traceback" not in said
