"""Descriptions of kinds and fields of devices, claims and groups, shown by `kubectl explain`.

The texts are in `descriptions.json`, by group and message; a text applies to every version with the message or
field. For pods, only the fields about claims and groups are described. Metadata is described completely, because
custom kinds show it. Other kinds are well documented elsewhere.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

_KIND = ("apiVersion", "kind", "metadata")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Messages that share the fields of another message.
_LIKE = {
    "resource.BasicDevice": "resource.Device",
    "resource.DeviceRequest": "resource.ExactDeviceRequest",
    "resource.DeviceSubRequest": "resource.ExactDeviceRequest",
}


@cache
def _texts() -> dict[str, dict[str, str]]:
    data = resources.files("dray.api").joinpath("descriptions.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, dict[str, str]])


def describe(message: str, field: str = "") -> str:
    """Return the description of a message or of one of its fields; empty if it has none.

    >>> describe("io.k8s.api.resource.v1.ResourceClaim", "spec")[:22]
    'What is asked for: the'
    """
    package, _, name = message.rpartition(".")
    group = "meta" if package == _META else package.removeprefix("io.k8s.api.").partition(".")[0]
    key = f"{group}.{name}"
    texts = _texts()
    if key not in texts:
        return ""
    if field in _KIND and "spec" in texts[key]:
        return texts["kind"][field]
    return texts[key].get(field) or texts.get(_LIKE.get(key, ""), {}).get(field, "")


def describe_kind(field: str) -> str:
    """Return the description of apiVersion, kind or metadata, which all objects have.

    Raises KeyError for another field.
    """
    return _texts()["kind"][field]
