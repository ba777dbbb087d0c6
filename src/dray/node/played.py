"""Run time and exit code of simulated containers, read from annotations of their pod. Pure.

Runtime `fake` and simulated nodes read the same annotations. Without them a container runs until it is stopped.
"""

from __future__ import annotations

from collections.abc import Mapping

SECONDS = "sim.dray.dev/seconds"
EXIT_CODE = "sim.dray.dev/exit-code"


class BadAnnotation(ValueError):
    """An annotation has an invalid value. The text names the annotation."""


def run_seconds(annotations: Mapping[str, str]) -> float | None:
    """Return how long a simulated container runs, or None if it runs until it is stopped.

    Raises BadAnnotation if the annotation is not a number of seconds from 0 to below 1e9.
    """
    text = annotations.get(SECONDS)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise BadAnnotation(f"annotation {SECONDS}: expected seconds, got {text!r}")
    return seconds


def exit_code(annotations: Mapping[str, str]) -> int:
    text = annotations.get(EXIT_CODE, "0")
    if not (text.isascii() and text.isdigit()) or int(text) > 255:
        raise BadAnnotation(f"annotation {EXIT_CODE}: expected 0 to 255, got {text!r}")
    return int(text)
