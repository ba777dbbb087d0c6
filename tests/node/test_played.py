"""What annotations say of containers that nobody executes."""

from __future__ import annotations

import pytest

from dray.node.fake import FakeRuntime
from dray.node.played import EXIT_CODE, SECONDS, BadAnnotation, exit_code, run_seconds
from dray.node.runtime import ContainerKey, ContainerStartError, Task


def test_without_annotations_a_container_runs_until_it_is_stopped() -> None:
    assert (run_seconds({}), exit_code({})) == (None, 0)


def test_annotations_say_how_long_and_how_it_ends() -> None:
    assert (run_seconds({SECONDS: "0.5"}), exit_code({EXIT_CODE: "255"})) == (0.5, 255)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1e12", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(BadAnnotation, match=f"annotation {SECONDS}: expected seconds, got '{text}'"):
        run_seconds({SECONDS: text})


@pytest.mark.parametrize("text", ["256", "-1", "1.0", "²", "one", ""])
def test_what_is_no_exit_code_is_refused(text: str) -> None:
    with pytest.raises(BadAnnotation, match=f"annotation {EXIT_CODE}: expected 0 to 255, got '{text}'"):
        exit_code({EXIT_CODE: text})


@pytest.mark.parametrize("annotations", [{SECONDS: "soon"}, {EXIT_CODE: "²"}])
async def test_the_fake_runtime_does_not_start_what_it_cannot_read(annotations: dict[str, str]) -> None:
    with pytest.raises(ContainerStartError, match=r"annotation .*: expected "):
        await FakeRuntime().start(Task(ContainerKey("p", "c", 0), ("true",), annotations=annotations))
