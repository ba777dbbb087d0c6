"""Sends cases to a program, or reads answers given before.

The program is started once. It reads one question per line on standard input and must answer with one line on
standard output before it reads the next. Left out: which answers are right (`judging`).
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from queue import Empty, SimpleQueue

import msgspec

from dray.allocatorkit.cases import AllocationCase, SelectorCase
from dray.allocatorkit.judging import AnswerStanding, AnswerVerdict, judge
from dray.allocatorkit.report import AllocatorReport
from dray.api.wire import Tree

Case = AllocationCase | SelectorCase


class ProgramError(RuntimeError):
    """The program does not answer correctly. The message names the case."""


def ask_program(command: Sequence[str], asked: Iterable[Case], seconds: float = 30.0) -> AllocatorReport:
    """Send cases to a program and judge its answers, within `seconds` per case. Raises ProgramError and OSError."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        answers: SimpleQueue[bytes] = SimpleQueue()
        reader = threading.Thread(target=_read, args=(process, answers), daemon=True)
        reader.start()
        try:
            return AllocatorReport([judge(case, _asked(process, answers, case, seconds)) for case in asked])
        finally:
            process.kill()
            reader.join()


def _read(process: subprocess.Popen[bytes], answers: SimpleQueue[bytes]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put(b"")


def _asked(process: subprocess.Popen[bytes], answers: SimpleQueue[bytes], case: Case, seconds: float) -> Tree:
    """Send one case to the program and return its answer. Raises ProgramError."""
    assert process.stdin is not None
    try:
        process.stdin.write(case.question + b"\n")
        process.stdin.flush()
        line = answers.get(timeout=seconds)
    except BrokenPipeError:
        line = b""
    except Empty:
        raise ProgramError(
            f"case {case.id}: no answer within {seconds:g} s; each question is to be answered by one line, which is "
            "flushed, before the next is read"
        ) from None
    if not line:
        raise ProgramError(f"case {case.id}: the program ended")
    answer = _decoded(line, f"case {case.id}")
    if answer.get("id") != case.id:
        raise ProgramError(f"case {case.id}: the answer is about {answer.get('id')!r}")
    return answer


def _decoded(line: bytes, place: str) -> Tree:
    try:
        return msgspec.json.decode(line, type=Tree)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ProgramError(f"{place}: expected a JSON object on one line: {error}") from error


def read_answers(lines: Iterable[bytes], asked: Iterable[Case]) -> AllocatorReport:
    """Judge answers given before, in any order. Cases without an answer count as skipped. Raises ProgramError."""
    known: Mapping[str, Tree] = dict(_numbered(lines))
    return AllocatorReport([_compared(case, known.get(case.id)) for case in asked])


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[str, Tree]]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            answer = _decoded(line, f"line {number}")
            yield str(answer.get("id")), answer


def _compared(case: Case, answer: Tree | None) -> AnswerVerdict:
    return AnswerVerdict(case.id, AnswerStanding.SKIPPED, "no answer") if answer is None else judge(case, answer)
