"""Which tolerations cover which taints."""

import msgspec
import pytest

from dray.allocator.taints import intolerable, tolerates
from dray.api.types.resource import DeviceTaint, DeviceToleration

TAINT = DeviceTaint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": "k"}, True),
        ({"operator": "Exists", "key": "other"}, False),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Equal", "key": "k", "value": "v"}, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, True),
        ({"operator": "Equal", "key": "k"}, False),
        ({"operator": "Unknown", "key": "k", "value": "v"}, False),
    ],
)
def test_a_toleration_covers_what_it_names_and_all_that_it_leaves_open(
    toleration: dict[str, str], expected: bool
) -> None:
    assert tolerates(msgspec.convert(toleration, DeviceToleration), TAINT) is expected


def test_only_effects_that_forbid_need_to_be_tolerated() -> None:
    taints = [DeviceTaint(key="k", effect=effect) for effect in ("None", "NoSchedule", "NoExecute", "Unknown")]
    assert [taint.effect for taint in intolerable(taints, ())] == ["NoSchedule", "NoExecute"]
    assert intolerable(taints, [DeviceToleration(operator="Exists")]) == []
