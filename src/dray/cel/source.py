"""The text of an expression: from offsets to lines and columns, and to messages that point at them."""

from __future__ import annotations

from collections.abc import Iterable

from dray.cel.errors import Problem

_MAX_PROBLEMS = 100


class Source:
    """An expression's text, addressed by code points."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")

    def location(self, offset: int | None) -> tuple[int, int]:
        """Line (from one) and column (from zero); (-1, -1) for no place."""
        if offset is None:
            return -1, -1
        line = self.text.count("\n", 0, offset)
        start = self.text.rfind("\n", 0, offset) + 1
        return line + 1, offset - start

    def report(self, problems: Iterable[Problem]) -> str:
        """All problems in the order of their places, each with the line it is in and a pointer."""
        ordered = sorted(problems, key=lambda problem: self.location(problem.offset))
        shown = [self._display(problem) for problem in ordered[:_MAX_PROBLEMS]]
        if len(ordered) > _MAX_PROBLEMS:
            shown.append(f"{len(ordered) - _MAX_PROBLEMS} more errors were truncated")
        return "\n".join(shown)

    def _display(self, problem: Problem) -> str:
        line, column = self.location(problem.offset)
        text = f"ERROR: <input>:{line}:{column + 1}: {problem.message}"
        if line < 1:
            return text
        snippet = self._lines[line - 1].replace("\t", " ")
        dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
        pointer = "^" if snippet[column : column + 1].isascii() else "\uff3e"
        return f"{text}\n | {snippet}\n | {dots}{pointer}"
