"""The example in docs/store.md works."""

import ast
import inspect
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "store.md"


async def test_the_example_works() -> None:
    source = PAGE.read_text().split("```python\n")[1].split("```")[0]
    names: dict = {}
    code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, names)
    assert inspect.iscoroutine(running)
    await running
    assert names["version"].object == "{1}"
    assert [version.key for version in names["page"].versions + names["rest"].versions] == [
        "pods/default/a",
        "pods/default/b",
    ]
    assert [event.type for event in names["events"]] == ["DELETED"]
    assert names["told"] == list(names["events"])
    assert names["bookmark"] == names["events"][-1].revision
