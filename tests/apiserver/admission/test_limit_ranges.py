"""Limit ranges: what they fill in, what they refuse, and how many of them nobody has to wait for."""

from typing import Any

import pytest

from dray.api.errors import MOST_ERRORS, Forbidden, TooLarge
from dray.api.wire import Tree
from dray.apiserver.admission.limit_ranges import ANNOTATION, LimitRanger
from tests import objects
from tests.apiserver.admission.writing import create
from tests.apiserver.reading import Objects
from tests.hostile.attackers import measured

MOST_SECONDS = 0.15  # of the processor for one turn; twenty milliseconds are the aim, and machines differ


def limits(type_: str = "Container", **amounts: dict[str, str]) -> LimitRanger:
    tree = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "default"},
        "spec": {"limits": [{"type": type_, **amounts}]},
    }
    return LimitRanger(Objects(tree))


def pod_of(*resources: dict[str, Any]) -> Tree:
    """A pod with a container for each of the resources."""
    containers = [{"name": f"c{index}", "resources": dict(one)} for index, one in enumerate(resources)]
    return objects.pod(namespace="default", containers=containers)


def many(count: int) -> dict[str, str]:
    return {f"example.com/r{index}": "1" for index in range(count)}


async def test_what_a_container_leaves_out_is_filled_in_and_noted() -> None:
    tree = pod_of({"requests": {"cpu": "1"}}, {})
    await create(limits(defaultRequest={"cpu": "2"}, default={"cpu": "3"}), tree)
    assert [container["resources"] for container in tree["spec"]["containers"]] == [
        {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
        {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}},
    ]
    noted = "cpu limit for container c0; cpu request for container c1; cpu limit for container c1"
    assert tree["metadata"]["annotations"] == {ANNOTATION: f"LimitRanger plugin set: {noted}"}


async def test_all_reasons_are_told_in_their_order() -> None:
    bounds = limits(min={"cpu": "1"}, max={"cpu": "2", "memory": "1Gi"}, maxLimitRequestRatio={"cpu": "2"})
    with pytest.raises(Forbidden) as caught:
        await create(bounds, pod_of({"requests": {"cpu": "500m"}, "limits": {"cpu": "3"}}))
    assert caught.value.message == (
        'pods "p" is forbidden: [minimum cpu usage per Container is 1, but request is 500m, '
        "maximum cpu usage per Container is 2, but limit is 3, "
        "maximum memory usage per Container is 1Gi.  No limit is specified, "
        "cpu max limit to request ratio per Container is 2, but provided ratio is 6.000000]"
    )


async def test_limits_of_a_pod_are_about_the_sum_of_its_containers() -> None:
    one = {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}
    await create(limits("Pod", max={"cpu": "2"}), pod_of(one, one))
    with pytest.raises(Forbidden, match="maximum cpu usage per Pod is 2, but limit is 3"):
        await create(limits("Pod", max={"cpu": "2"}), pod_of(one, one, one))


async def test_thousands_of_limits_and_a_thousand_containers_hold_nobody_up() -> None:
    bounds, tree = limits(max=many(4000)), pod_of(*({} for _ in range(1000)))
    async with measured() as stall:
        with pytest.raises(Forbidden) as caught:
            await create(bounds, tree)
    assert caught.value.message.count("No limit is specified") == MOST_ERRORS
    assert caught.value.message.endswith(", and more]")
    assert stall.longest < MOST_SECONDS


async def test_defaults_do_not_make_a_pod_huge() -> None:
    tree = pod_of(*({} for _ in range(1000)))
    async with measured() as stall:
        with pytest.raises(TooLarge):
            await create(limits(default=many(4000)), tree)
    assert stall.longest < MOST_SECONDS
