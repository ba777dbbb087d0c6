"""The environment of containers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.types.core import ConfigMap, Pod, Secret
from dray.client import Client
from dray.node.environment import ConfigProblem, Sources, VariablePlace, command_line, environment, expand
from tests import objects

PLACE = VariablePlace("node-a", "1.2.3.4", "5.6.7.8")


def pod_of(container: dict[str, Any]) -> Pod:
    tree = objects.pod(
        namespace="default",
        metadata={"uid": "u", "labels": {"app": "web", "b": "c"}},
        serviceAccountName="sa",
        containers=[{"name": "main", "image": "i", **container}],
    )
    return msgspec.convert(tree, Pod)


async def env(client: Client, **container: Any) -> dict[str, str]:
    made = pod_of(container)
    return await environment(made, made.spec.containers[0], Sources(client, "default"), PLACE)


def field(path: str) -> dict[str, Any]:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "u"),
        ("metadata.labels", 'app="web"\nb="c"'),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['none']", ""),
        ("spec.nodeName", "node-a"),
        ("spec.serviceAccountName", "sa"),
        ("status.podIP", "5.6.7.8"),
        ("status.hostIP", "1.2.3.4"),
    ],
)
async def test_fields_of_the_pod(client: Client, path: str, value: str) -> None:
    assert await env(client, env=[field(path)]) == {"X": value}


async def test_other_fields_are_refused_by_name(client: Client) -> None:
    with pytest.raises(ConfigProblem, match=r"fieldPath 'spec.nope'"):
        await env(client, env=[field("spec.nope")])
    with pytest.raises(ConfigProblem, match="env X: only fieldRef"):
        await env(
            client, env=[{"name": "X", "valueFrom": {"fileKeyRef": {"path": "a", "key": "b", "volumeName": "c"}}}]
        )


@pytest.mark.parametrize(
    ("reference", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.ephemeral-storage"}, "0"),
    ],
)
async def test_resources_of_the_container(client: Client, reference: dict[str, str], value: str) -> None:
    limits = {"cpu": "1500m", "memory": "64Mi"}
    variable = {"name": "X", "valueFrom": {"resourceFieldRef": reference}}
    assert await env(client, env=[variable], resources={"limits": limits}) == {"X": value}


async def test_values_from_config_maps_and_secrets(client: Client) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}}, namespace="default")
    await client.create(Secret, {"metadata": {"name": "s"}, "data": {"k": "c2VjcmV0"}}, namespace="default")
    found = await env(
        client,
        envFrom=[{"prefix": "M_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "no", "optional": True}}],
        env=[
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "a"}}},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "NO", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no", "optional": True}}},
        ],
    )
    assert found == {"M_a": "1", "M_b": "2", "A": "1", "S": "secret"}


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"envFrom": [{"configMapRef": {"name": "no"}}]}, 'configmap "no" not found'),
        ({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "no", "key": "k"}}}]}, 'secret "no" not found'),
        (
            {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "kube-root-ca.crt", "key": "k"}}}]},
            "couldn't find key k in configmap kube-root-ca.crt",
        ),
    ],
)
async def test_what_is_missing_is_named(client: Client, container: dict[str, Any], text: str) -> None:
    await client.create(ConfigMap, {"metadata": {"name": "kube-root-ca.crt"}}, namespace="default")
    with pytest.raises(ConfigProblem, match=text):
        await env(client, **container)


async def test_a_missing_config_map_is_asked_for_again(client: Client) -> None:
    sources = Sources(client, "default")
    assert await sources.data("configmap", "m") is None
    await client.create(ConfigMap, {"metadata": {"name": "m"}, "data": {"a": "1"}}, namespace="default")
    assert await sources.data("configmap", "m") == {"a": b"1"}


async def test_variables_refer_to_earlier_ones(client: Client) -> None:
    listed = [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)-$(C)"}, {"name": "C", "value": "y"}]
    assert await env(client, env=listed) == {"A": "x", "B": "x-$(C)", "C": "y"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$(B)", "$(B)"),
        ("$A", "$A"),
        ("a$(A)b$(A)", "a1b1"),
        ("$(A", "$(A"),
        ("$$$$", "$$"),
    ],
)
def test_references(text: str, value: str) -> None:
    assert expand(text, {"A": "1"}) == value


def test_command_and_arguments_are_one_line() -> None:
    made = pod_of({"command": ["run", "$(A)"], "args": ["--b=$(B)"]})
    assert command_line(made.spec.containers[0], {"A": "1", "B": "2"}) == ("run", "1", "--b=2")
