"""The example's parameters: who may say what, and who has the last word."""

from __future__ import annotations

from typing import Any

import pytest

from dray.driver import DeviceConfig, PrepareError
from dray.driver.example.options import Chosen, options


def config(source: str = "FromClaim", **parameters: Any) -> DeviceConfig:
    return DeviceConfig(source, {"apiVersion": "gpu.example.com/v1", "kind": "GpuConfig", **parameters})


def test_without_parameters_a_gpu_is_exclusive() -> None:
    assert options([]) == Chosen("exclusive", {}, False)


def test_a_claim_has_the_last_word_about_what_it_says() -> None:
    chosen = options(
        [
            config("FromClass", sharing="time-sliced", env={"A": "class", "B": "class"}, persistence=True),
            config(env={"B": "claim"}),
        ]
    )
    assert chosen == Chosen("time-sliced", {"A": "class", "B": "claim"}, True)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"persistence": True}, "persistence may be set by a DeviceClass only"),
        ({"persistence": False}, "persistence may be set by a DeviceClass only"),
        ({"sharing": "often"}, "sharing"),
        ({"colour": "red"}, "colour"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"A=B": "c"}}, "A=B"),
        ({"env": {"GPU_DEVICE_0": "gpu-7"}}, "GPU_DEVICE_0"),
        ({"kind": "Other"}, "kind"),
        ({"apiVersion": "v2"}, "apiVersion"),
    ],
)
def test_what_a_claim_may_not_say_is_refused_by_name(parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PrepareError, match=complaint):
        options([config(**parameters)])


@pytest.mark.parametrize("parameters", [None, 3, [], {}])
def test_parameters_that_are_none_are_refused(parameters: Any) -> None:
    with pytest.raises(PrepareError):
        options([DeviceConfig("FromClaim", parameters)])
