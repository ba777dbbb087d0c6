"""The checker accepts what may happen and finds what may not."""

from __future__ import annotations

import random

import pytest

from tests.faults.linearizable import OK, READ, REFUSED, SWAP, UNKNOWN, WRITE, Operation, violation

Op = Operation


POSSIBLE = {
    "one after the other": [Op(WRITE, "a", 0, 1), Op(READ, "a", 2, 3)],
    "reads beside a write see the one or the other": [Op(WRITE, "a", 0, 9), Op(READ, "0", 1, 2), Op(READ, "a", 3, 4)],
    "an unanswered write that happened late": [
        Op(WRITE, "a", 0, outcome=UNKNOWN),
        Op(READ, "0", 5, 6),
        Op(READ, "a", 7, 8),
    ],
    "an unanswered write that never happened": [Op(WRITE, "a", 0, outcome=UNKNOWN), Op(READ, "0", 5, 6)],
    "one of two swaps": [Op(SWAP, "a", 0, 5, OK, "0"), Op(SWAP, "b", 0, 5, REFUSED, "0"), Op(READ, "a", 6, 7)],
    "an unanswered swap that happened": [
        Op(SWAP, "a", 0, outcome=UNKNOWN, expected="0"),
        Op(SWAP, "b", 3, 4, REFUSED, "0"),
        Op(READ, "a", 5, 6),
    ],
}
IMPOSSIBLE = {
    "a stale read": [Op(WRITE, "a", 0, 1), Op(READ, "0", 2, 3)],
    "an acknowledged write that is lost": [Op(WRITE, "a", 0, 1), Op(WRITE, "b", 2, 3), Op(READ, "a", 4, 5)],
    "a value that comes back": [Op(WRITE, "a", 0, 9), Op(READ, "a", 1, 2), Op(READ, "0", 3, 4)],
    "two swaps of one value": [Op(SWAP, "a", 0, 5, OK, "0"), Op(SWAP, "b", 0, 5, OK, "0")],
    "a swap that was refused without a reason": [Op(SWAP, "a", 1, 2, REFUSED, "0")],
    "a swap that was refused and happened": [
        Op(WRITE, "a", 0, 1),
        Op(SWAP, "b", 2, 3, REFUSED, "0"),
        Op(READ, "b", 4, 5),
    ],
    "a value that nobody wrote": [Op(READ, "x", 0, 1)],
    "an unanswered write that is undone": [
        Op(WRITE, "a", 0, outcome=UNKNOWN),
        Op(READ, "a", 1, 2),
        Op(READ, "0", 3, 4),
    ],
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_may_happen_is_accepted(name: str) -> None:
    assert violation(POSSIBLE[name], "0") == ""


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_may_not_happen_is_found(name: str) -> None:
    assert violation(IMPOSSIBLE[name], "0") != ""


def simulated(dice: random.Random, clients: int, length: int) -> list[Operation]:
    """A history of a correct register whose clients work side by side; some answers are lost."""
    history: list[Operation] = []
    value, number = "0", 0
    free = [0.0] * clients
    moment = 0.0
    for _ in range(length):
        client = min(range(clients), key=lambda one: free[one])
        begun = free[client] + dice.random()
        moment = max(moment, begun) + dice.random() * 0.1  # when it takes effect
        ended = moment + dice.random()
        free[client] = ended
        kind = dice.choice((READ, WRITE, SWAP))
        number += 1
        new, expected = str(number), dice.choice((value, "0"))
        if kind == READ:
            history.append(Op(READ, value, begun, ended))
            continue
        happens = kind == WRITE or expected == value
        if dice.random() < 0.1:
            history.append(Op(kind, new, begun, outcome=UNKNOWN, expected=expected))
            happens = happens and dice.random() < 0.5
        else:
            history.append(Op(kind, new, begun, ended, OK if happens else REFUSED, expected))
        if happens:
            value = new
    return history


@pytest.mark.parametrize("seed", range(20))
def test_long_histories_of_a_correct_register_are_accepted_and_a_planted_fault_is_found(seed: int) -> None:
    dice = random.Random(seed)
    history = simulated(dice, 6, 300)
    assert violation(history, "0") == ""
    reads = [at for at, operation in enumerate(history) if operation.kind == READ and at > 100]
    at = dice.choice(reads)
    broken = history[at]
    history[at] = Op(READ, "0", broken.begun, broken.ended)  # a value from long ago
    assert violation(history, "0") != ""
