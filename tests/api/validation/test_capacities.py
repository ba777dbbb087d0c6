"""How a shared capacity may be handed out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.kinds.resource_slice import request_policy
from dray.api.paths import Path
from dray.api.types.resource import DeviceCapacity
from tests.api.asking import faults


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"default": "2", "validValues": ["1", "2", "1k"]}, [("p.validValues[2]", "Invalid")]),
        ({"default": "1", "validValues": ["1", "1000m"]}, [("p.validValues[1]", "Duplicate")]),
        ({"default": "1200m", "validValues": ["1200m", "1500m"]}, []),
        ({"default": "1", "validValues": ["1"] * 11}, [("p.validValues", "TooMany"), ("p.validValues", "Invalid")]),
        ({"validRange": {"min": "1"}}, [("p.default", "Required")]),
        ({"default": "0", "validRange": {"min": "1"}}, [("p.validRange.default", "Invalid")]),
        ({"default": "101", "validRange": {"min": "101"}}, [("p.validRange.min", "Invalid")]),
        (
            {"default": "9", "validRange": {"min": "5", "max": "4"}},
            [
                ("p.validRange.max", "Invalid"),
                ("p.validRange.default", "Invalid"),
            ],
        ),
        ({"default": "1", "validRange": {"min": "1", "step": "0"}}, [("p.validRange.step", "Invalid")]),
        ({"default": "50", "validRange": {"min": "50", "step": "60"}}, [("p.validRange.step", "Invalid")]),
        ({"default": "1500m", "validRange": {"min": "1", "step": "500m"}}, []),
        ({"default": "1200m", "validRange": {"min": "1", "step": "500m"}}, [("p.validRange.step", "Invalid")]),
        ({"default": "1", "validRange": {"min": "1", "max": "99", "step": "3"}}, [("p.validRange.step", "Invalid")]),
        ({"default": "0", "validRange": {"min": "-1"}}, []),
        ({"default": "0", "validRange": {"min": "-1", "step": "1"}}, [("p.validRange.min", "Invalid")]),
        (
            {"default": "1", "validRange": {"min": "1", "step": "10E"}},
            [("p.validRange.step", "Invalid"), ("p.validRange.step", "Invalid")],
        ),
        ({}, []),
    ],
)
def test_policies_of_a_capacity_of_100(policy: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    capacity = msgspec.convert({"value": "100", "requestPolicy": policy}, DeviceCapacity)
    assert faults(list(request_policy(capacity, Path("p")))) == expected
