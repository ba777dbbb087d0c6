"""Which taints keep a device from being allocated."""

from dray.allocator.taints import intolerable
from dray.api.types.resource import DeviceTaint, DeviceToleration


def test_only_effects_that_forbid_need_to_be_tolerated() -> None:
    taints = [DeviceTaint(key="k", effect=effect) for effect in ("None", "NoSchedule", "NoExecute", "Unknown")]
    assert [taint.effect for taint in intolerable(taints, ())] == ["NoSchedule", "NoExecute"]
    assert intolerable(taints, [DeviceToleration(operator="Exists")]) == []
