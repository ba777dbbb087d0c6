"""The example on the page about the API objects runs as it stands there."""

from __future__ import annotations

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "api.md"


def test_the_example_runs() -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    scope: dict[str, object] = {}
    exec(compile(found[1], str(PAGE), "exec"), scope)
    assert scope["errors"] == []
