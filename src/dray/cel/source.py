"""Source text of an expression: converts offsets to lines and columns, and formats errors with their position."""

from __future__ import annotations

from bisect import bisect_right

from dray.cel.errors import MAX_PROBLEMS, CelIssue, Problems

_MAX_REPORT = 100_000  # characters, without the last problem; limited because every problem repeats its whole line


class Source:
    """Text of an expression; offsets count code points."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._starts = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]

    def location(self, offset: int | None) -> tuple[int, int]:
        """Return the line (from one) and the column (from zero) of an offset; (-1, -1) for None."""
        if offset is None:
            return -1, -1
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]

    def report(self, found: Problems) -> str:
        """Return all problems as text, sorted by position, each with its line and a pointer to its column.

        At most MAX_PROBLEMS are shown; the last line then counts the others.
        """
        ordered = sorted(found.problems, key=lambda problem: self.location(problem.offset))
        shown: list[str] = []
        left = _MAX_REPORT
        for problem in ordered[:MAX_PROBLEMS]:
            shown.append(self._display(problem))
            left -= len(shown[-1])
            if left < 0:
                break
        more = found.more + len(ordered) - len(shown)
        if more:
            shown.append(f"{more} more errors were truncated")
        return "\n".join(shown)

    def _display(self, problem: CelIssue) -> str:
        line, column = self.location(problem.offset)
        if self._lines == [""] and problem.offset == 0:  # an empty text has no column 1
            return f"ERROR: <input>:1:0: {problem.message}"
        text = f"ERROR: <input>:{line}:{column + 1}: {problem.message}"
        if line < 1:
            return text
        snippet = self._lines[line - 1].replace("\t", " ")
        dots = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
        pointer = "^" if snippet[column : column + 1].isascii() else "\uff3e"
        return f"{text}\n | {snippet}\n | {dots}{pointer}"
