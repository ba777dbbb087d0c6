"""The chain: its order, what can be left out, and what it holds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dray.api.types.core import Node, Pod
from dray.apiserver.admission import Admission, AdmissionRequest, Chain
from dray.apiserver.admission.plugins import default_chain
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.rbac import Rbac
from tests.apiserver.admission.writing import about
from tests.apiserver.reading import Objects, node, pod


def made(disabled: tuple[str, ...] = ()) -> Chain:
    objects = Objects()
    rbac = Rbac(objects)
    return default_chain(objects, Union(rbac), rbac, disabled=disabled)


def names(chain: Chain) -> list[str]:
    return [plugin.name for plugin in chain.plugins]


def test_order() -> None:
    order = names(made())
    assert order[0] == "NamespaceLifecycle"
    assert order[-1] == "ResourceQuota"
    assert order.index("ServiceAccount") < order.index("NodeRestriction") < order.index("ValidatingAdmissionWebhook")
    assert len(set(order)) == len(order)


def test_plugins_can_be_disabled_by_name() -> None:
    assert set(names(made())) - set(names(made(("ServiceAccount", "ResourceQuota")))) == {
        "ServiceAccount",
        "ResourceQuota",
    }


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown admission plugins: Nope"):
        made(("Nope",))


@pytest.mark.parametrize("name", ["NodeSlices", "RoleEscalation", "DRAAdminAccess", "DRAClaimStatus"])
def test_rules_of_the_system_cannot_be_disabled(name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be disabled: {name}"):
        made((name,))


class Recorder(Admission):
    def __init__(self, name: str, log: list[str], refuses: bool = False) -> None:
        self.name = name
        self._log = log
        self._refuses = refuses

    async def admit(self, request: AdmissionRequest) -> None:
        self._log.append(f"admit {self.name}")

    async def validate(self, request: AdmissionRequest) -> None:
        self._log.append(f"validate {self.name}")
        await request.hold(self._held())
        if self._refuses:
            raise request.forbidden("no")

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._log.append(f"release {self.name}")

    async def write(self, request: AdmissionRequest) -> None:
        self._log.append(f"write {self.name}")

    async def aclose(self) -> None:
        self._log.append(f"close {self.name}")


async def test_first_refusal_ends_the_chain_and_releases_what_is_held() -> None:
    log: list[str] = []
    chain = Chain([Recorder("a", log), Recorder("b", log, refuses=True), Recorder("c", log)])
    asked = about("CREATE", pod("p"))
    await chain.admit(asked)
    with pytest.raises(Exception, match='pods "p" is forbidden: no'):
        await chain.validate(asked)
    assert log == ["admit a", "admit b", "admit c", "validate a", "validate b", "release b", "release a"]


async def test_after_a_conflict_only_writes_are_decided_anew() -> None:
    log: list[str] = []
    chain = Chain([Recorder("a", log), Admission()])
    asked = about("CREATE", pod("p"))
    await chain.validate(asked)
    await chain.revalidate(asked)
    await chain.aclose()
    assert log == ["validate a", "write a", "close a"]
    await asked.release()


class Configured(Recorder):
    configured_by = (Node,)
    reads = (Node,)


async def test_plugin_is_left_out_while_nothing_tells_it_what_to_do() -> None:
    log: list[str] = []
    objects = Objects()
    chain = Chain([Configured("a", log)], objects)

    async def asked() -> list[str]:
        request = about("CREATE", pod("p"))
        log.clear()
        await chain.admit(request)
        await chain.validate(request)
        await request.release()
        return [*log]

    assert await asked() == []
    assert chain.reads(Pod, "CREATE") == ()
    objects.put(node("n"))
    assert await asked() == ["admit a", "validate a", "release a"]
    (read,) = chain.reads(Pod, "CREATE") or ()
    before = read.revision
    objects.put(node("m"))
    assert read.revision > before
    objects.remove(Node, "", "m")
    objects.remove(Node, "", "n")
    assert await asked() == []
