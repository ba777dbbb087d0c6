"""Secret: passwords, tokens and keys that pods read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from operator import attrgetter

from dray.api import names
from dray.api.columns import AGE, NAME, number, text
from dray.api.errors import required, too_long
from dray.api.kind import Resource
from dray.api.kinds.config_map import DATA_MAX
from dray.api.paths import METADATA, Path
from dray.api.rules import Errors, named
from dray.api.types import core
from dray.api.wire import Tree

_TOKEN_TYPE = "kubernetes.io/service-account-token"
_TOKEN_ACCOUNT = "kubernetes.io/service-account.name"
_TYPED_SECRETS: Mapping[str, tuple[str, ...]] = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _encode(tree: Tree) -> None:
    """Move the write-only `stringData` into `data`, encoded as base64."""
    plain = tree.pop("stringData", None)
    if plain:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in plain.items()}
        tree["data"] = {**(tree.get("data") or {}), **encoded}


KIND = Resource(
    core.Secret,
    columns=(NAME, text("Type", "type"), number("Data", lambda secret: len(secret.data)), AGE),
    defaults={"type": "Opaque"},
    more_defaults=_encode,
    selectable={"type": attrgetter("type")},
)


def secret(value: core.Secret, _: Path | None) -> Errors:
    """Yield errors in the keys and size of a Secret, or if keys required by its type are missing."""
    for key in value.data:
        yield from named(key, Path("data") % key, names.config_key)
    if sum(len(base64.b64decode(text)) for text in value.data.values()) > DATA_MAX:
        yield too_long("data", DATA_MAX)
    if value.type == _TOKEN_TYPE and not value.metadata.annotations.get(_TOKEN_ACCOUNT):
        yield required(METADATA / "annotations" % _TOKEN_ACCOUNT)
    for key in _TYPED_SECRETS.get(value.type, ()):
        if key not in value.data:
            yield required(Path("data") % key)
    if value.type == "kubernetes.io/basic-auth" and not {"username", "password"} & value.data.keys():
        for key in ("username", "password"):
            yield required(Path("data") % key)
