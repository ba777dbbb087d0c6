"""Line numbers of fields in YAML files, so that editors can jump to findings.

A path that does not exist resolves to its longest existing prefix: a missing required field is reported at its
parent.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_STEP = re.compile(r"\[([^]]*)\]|([^.[\]]+)")


def line_of(content: bytes, document: int, item: int | None, field: str) -> int:
    """Return the line of a field, counted from 1, in a document of a file; 0 if the file cannot be parsed.

    `document` and `item` (in a list's `items`) are counted from 1.
    """
    try:
        node = [*yaml.compose_all(content.decode(), Loader=yaml.SafeLoader)][document - 1]
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError, IndexError):
        return 0
    if item is not None:
        node = _child(_child(node, "items"), str(item - 1))
    line = _line(node)
    for index, name in _STEP.findall(field):
        node = _child(node, index or name)
        if node is None:
            break
        line = _line(node) or line
    return line


def _line(node: Any) -> int:
    return node.start_mark.line + 1 if node is not None else 0


def _child(node: Any, step: str) -> Any:
    """Return the node at a key of a mapping or at an index of a sequence, or None.

    `step` is the key or the index as text.
    """
    if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)]
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step.strip('"')), None)
    return None
