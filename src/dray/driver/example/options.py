"""What users may ask of the example GPUs, in claims and classes: the parameters, and the rules about them.

The rules are applied twice: by the webhook, when somebody writes them, and by prepare, since a webhook can be missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from dray.driver import DeviceConfig, PrepareError


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters; what is not said stays as it was."""

    apiVersion: Literal["gpu.example.com/v1"]
    kind: Literal["GpuConfig"]
    sharing: Literal["exclusive", "time-sliced", ""] = ""
    env: dict[str, str] = {}
    persistence: bool | None = None  # outlives the claim, so only a class may set it


class Chosen(msgspec.Struct):
    """What holds for a device after all its configuration was read."""

    sharing: str = "exclusive"
    env: dict[str, str] = {}
    persistence: bool = False


def options(configs: Iterable[DeviceConfig]) -> Chosen:
    """Classes come first and claims later, which have the last word; PrepareError when one is wrong."""
    chosen = Chosen()
    for config in configs:
        said = parse(config.parameters, config.from_class)
        chosen.sharing = said.sharing or chosen.sharing
        chosen.env = {**chosen.env, **said.env}
        if said.persistence is not None:
            chosen.persistence = said.persistence
    return chosen


def parse(parameters: Any, from_class: bool) -> Options:
    try:
        said = msgspec.convert(parameters, Options)
    except msgspec.ValidationError as error:
        raise PrepareError(f"parameters of gpu.example.com: {error}") from error
    if said.persistence is not None and not from_class:
        raise PrepareError("parameters of gpu.example.com: persistence may be set by a DeviceClass only")
    bad = [name for name in said.env if not name or "=" in name or name.startswith("GPU_")]
    if bad:
        raise PrepareError(f"parameters of gpu.example.com: env: {bad[0]!r} cannot be set")
    return said
