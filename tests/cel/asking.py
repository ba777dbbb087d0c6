"""Ask a selector about a device both ways, and insist on one answer."""

from __future__ import annotations

from typing import Any

import msgspec

from dray.api.types.resource import DeviceAttribute, DeviceCapacity
from dray.cel import CelFeatures, DeviceView, EvaluationError, compile_selector
from dray.cel.environment import DEFAULT_FEATURES

DOMAIN = "gpu.example.com"


def device(
    attributes: dict[str, Any] | None = None,
    capacity: dict[str, Any] | None = None,
    driver: str = DOMAIN,
    shared: bool | None = None,
) -> DeviceView:
    return DeviceView(
        driver,
        msgspec.convert(attributes or {}, dict[str, DeviceAttribute]),
        msgspec.convert(capacity or {}, dict[str, DeviceCapacity]),
        shared,
    )


BARE = device()


def ask(expression: str, about: DeviceView = BARE, features: CelFeatures = DEFAULT_FEATURES) -> bool | str:
    """Whether the device matches, or the text of the error, compile errors included."""
    selector = compile_selector(expression, features=features)
    if selector.error is not None:
        return str(selector.error)
    outcome = selector.evaluate(about)
    answer = outcome.match if outcome.error is None else outcome.error
    try:
        quick: bool | str = selector.matches(about)
    except EvaluationError as error:
        quick = str(error)
    assert quick == answer
    assert answer is not None
    return answer


def complaint(expression: str, features: CelFeatures = DEFAULT_FEATURES) -> str:
    """The first line of why an expression does not compile, without what they all begin with."""
    error = compile_selector(expression, features=features).error
    assert error is not None, "it compiles"
    return error.detail.removeprefix("compilation failed: ").partition("\n")[0]
