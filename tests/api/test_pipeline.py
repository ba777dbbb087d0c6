"""Whatever a well typed object says, the steps of a write end in a stored object or in field errors, never in a crash."""

from __future__ import annotations

import copy

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.api import conversion, decode, defaults, strategy, validation
from dray.api.errors import Invalid
from dray.api.gates import FeatureGates
from dray.api.resources import RESOURCES, Resource
from dray.api.wire import Tree, Wire
from tests.api.asking import ALL, NOW
from tests.api.trees import trees

SERVED = [
    pytest.param(resource, version, id=f"{resource.group}-{resource.kind}-{version}")
    for resource in RESOURCES
    for version in resource.versions
]
_QUICK = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _prepared(resource: Resource, version: str, tree: Tree, gates: FeatureGates, old: Wire | None) -> Tree:
    tree = copy.deepcopy(tree)
    decode.check(resource, version, tree)
    tree = conversion.to_stored(resource, version, tree, old)
    defaults.apply_defaults(resource, tree, gates, NOW)
    return tree


@pytest.mark.parametrize(("resource", "version"), SERVED)
@pytest.mark.parametrize("gates", [FeatureGates(), ALL], ids=["defaults", "all"])
@_QUICK
@given(data=st.data())
def test_creating_and_updating_never_crashes(
    resource: Resource, version: str, gates: FeatureGates, data: st.DataObject
) -> None:
    home = resource.home
    context = validation.Context(gates, version=version)
    bodies = trees(resource.message(version), 4)
    tree = _prepared(resource, version, data.draw(bodies), gates, None)
    strategy.prepare_create(resource, tree, gates)
    new = decode.to_object(home, tree)
    errors = validation.validate_create(resource, new, context)
    Invalid(resource, "x", errors).status()

    subresource = data.draw(st.sampled_from(["", *({"status"} & set(resource.subresources))]))
    changed = _prepared(resource, version, data.draw(bodies), gates, new)
    strategy.prepare_update(resource, changed, new, subresource, gates)
    after = decode.to_object(home, changed)
    errors = validation.validate_update(resource, after, new, subresource, context)
    Invalid(resource, "x", errors).status()

    shown = conversion.from_stored(resource, version, msgspec.json.decode(msgspec.json.encode(after)))
    assert decode.check(resource, version, shown) == []
