"""What the kinds and fields of devices, claims and groups mean, in a sentence or two: the text of `kubectl explain`.

The texts are in `descriptions.json`, by group and message; a text holds for every version that has the message or
field. Of pods, only the parts about claims and groups have one; metadata has them all, since custom kinds show them;
other kinds are well documented elsewhere.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

_KIND = ("apiVersion", "kind", "metadata")
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
# Messages that hold the fields of another one, beside or instead of their own.
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
    """The description of a message or of one of its fields; empty where there is none.

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
    """The description of apiVersion, kind or metadata, which all objects have."""
    return _texts()["kind"][field]
