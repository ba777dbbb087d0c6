"""Volumes: a name, one source, and what the source cannot do without."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.constraints import checked
from dray.api.paths import Path
from dray.api.schema import CORE
from dray.api.types.core import Volume
from tests.api.asking import faults


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"emptyDir": {"sizeLimit": "1Gi"}}, []),
        ({"emptyDir": {"sizeLimit": "-1"}}, [("emptyDir.sizeLimit", "Forbidden")]),
        ({"hostPath": {"path": "/dev"}}, []),
        ({"hostPath": {}}, [("hostPath.path", "Required")]),
        ({"configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}}, []),
        (
            {"configMap": {"items": [{}]}},
            [
                ("configMap.name", "Required"),
                ("configMap.items[0].key", "Required"),
                ("configMap.items[0].path", "Required"),
            ],
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "a", "path": "/b"}, {"key": "a", "path": "../b"}]}},
            [
                ("secret.items[0].path", "Invalid"),
                ("secret.items[1].path", "Invalid"),
            ],
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "a", "path": "..x"}]}},
            [("secret.items[0].path", "Invalid")],
        ),
        ({"secret": {"secretName": "s", "defaultMode": 512}}, [("secret.defaultMode", "Invalid")]),
        ({"hostPath": {"path": "/dev", "type": "Folder"}}, [("hostPath.type", "NotSupported")]),
        (
            {"downwardAPI": {"items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            [("downwardAPI.path", "Invalid")],
        ),
        (
            {"downwardAPI": {"items": [{"path": "/etc/cron.d/x", "fieldRef": {"fieldPath": "spec.nodeName"}}]}},
            [("downwardAPI.path", "Invalid"), ("downwardAPI.fieldRef.fieldPath", "NotSupported")],
        ),
        ({"downwardAPI": {"items": [{"path": "x"}]}}, [("downwardAPI", "Required")]),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "/x", "expirationSeconds": 60}}]}},
            [
                ("projected.sources[0].serviceAccountToken.expirationSeconds", "Invalid"),
                ("projected.sources[0].serviceAccountToken.path", "Invalid"),
            ],
        ),
        (
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "x"}}, {"serviceAccountToken": {"path": "./x"}}]
                }
            },
            [("projected", "Invalid")],
        ),
        ({"persistentVolumeClaim": {"claimName": "c"}}, []),
        ({"persistentVolumeClaim": {"claimName": "C"}}, [("persistentVolumeClaim.claimName", "Invalid")]),
        ({"nfs": {}}, [("nfs.server", "Required"), ("nfs.path", "Required")]),
        (
            {"projected": {"sources": [{"secret": {}, "configMap": {"name": "c"}}]}},
            [
                ("projected.sources[0].secret", "Forbidden"),
                ("projected.sources[0].secret.name", "Required"),
            ],
        ),
        ({}, [("", "Required")]),
    ],
)
def test_sources(source: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    volume = msgspec.convert({"name": "v", **source}, Volume)
    errors = checked(f"{CORE}Volume", volume, Path("v"))
    found = [(field.removeprefix("v").removeprefix("."), reason) for field, reason in faults(errors)]
    assert found == expected
