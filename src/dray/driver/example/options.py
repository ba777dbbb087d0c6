"""Parameters of the example GPUs that users may set in claims and classes, and their validation.

The parameters are checked twice: by the webhook when they are written, and in prepare, since a webhook may be
missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from dray.driver import DeviceConfig, PrepareError


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters for the example GPUs. A parameter that is not set keeps its earlier value."""

    apiVersion: Literal["gpu.example.com/v1"]
    kind: Literal["GpuConfig"]
    sharing: Literal["exclusive", "time-sliced", ""] = ""
    env: dict[str, str] = {}
    persistence: bool | None = None  # outlives the claim, so only a class may set persistence


class Chosen(msgspec.Struct):
    """The effective parameters of a device after merging all its configurations."""

    sharing: str = "exclusive"
    env: dict[str, str] = {}
    persistence: bool = False


def options(configs: Iterable[DeviceConfig]) -> Chosen:
    """Merge the configurations of a device; claims override classes. Raises `PrepareError` if one is invalid."""
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
