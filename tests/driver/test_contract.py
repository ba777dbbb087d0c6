"""A class that is no driver is told so at once."""

from __future__ import annotations

import pytest

from dray.client import Client
from dray.driver import CdiError, Edits, Runner


class Halfway:
    name = "gpu.example.com"

    async def devices(self) -> object: ...

    async def prepare(self, claim: object) -> object: ...


class Unnamed(Halfway):
    name = None  # type: ignore[assignment]

    async def unprepare(self, claim: object) -> None: ...


class Blocking(Halfway):
    def unprepare(self, claim: object) -> None: ...


@pytest.mark.parametrize(
    ("driver", "lacks"), [(Halfway(), "async def unprepare"), (Unnamed(), "name"), (Blocking(), "async def unprepare")]
)
def test_what_a_driver_lacks_is_named_before_it_runs(client: Client, driver: object, lacks: str) -> None:
    with pytest.raises(TypeError, match=lacks):
        Runner(driver, client)  # type: ignore[arg-type]


@pytest.mark.parametrize(("env", "complaint"), [({"A=B": "1"}, "A=B"), ({"": "1"}, "name"), ({"A": 1}, "A: the value")])
def test_a_wrong_variable_is_refused_where_it_is_written(env: dict[str, str], complaint: str) -> None:
    with pytest.raises(CdiError, match=complaint):
        Edits(env=env)
