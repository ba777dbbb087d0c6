"""Why claims could not be allocated, as data and in words.

For each request: how many devices were left after each step, from what is published to what is free. Where every
request could be served alone, the requests that cannot be served together are named. Left out: the counting itself
(`diagnosis`).
"""

from __future__ import annotations

import msgspec


class Step(msgspec.Struct, frozen=True):
    """How many devices remain after one condition."""

    condition: str
    devices: int


class AlternativeReasons(msgspec.Struct, frozen=True):
    """One way to serve a request: what it needs and what is left of the published devices, step by step."""

    name: str
    needed: int
    every: bool
    steps: tuple[Step, ...]

    @property
    def available(self) -> int:
        """Devices that pass every step."""
        return self.steps[-1].devices

    @property
    def enough(self) -> bool:
        """Whether this alternative could be served if nobody else wanted devices."""
        return self.available >= max(self.needed, int(self.every))

    @property
    def lost_at(self) -> Step:
        """The step after which too few devices remain; the last one, where none is to blame."""
        needed = max(self.needed, 1)
        return next((step for step in self.steps if step.devices < needed), self.steps[-1])


class RequestReasons(msgspec.Struct, frozen=True):
    """A request with all its alternatives."""

    claim: str
    request: str
    alternatives: tuple[AlternativeReasons, ...]

    @property
    def enough(self) -> bool:
        """Whether some alternative could be served alone."""
        return any(alternative.enough for alternative in self.alternatives)


class ConstraintReasons(msgspec.Struct, frozen=True):
    """A constraint that cannot be met: how many devices must agree, and the value that most free devices share."""

    claim: str
    attribute: str
    distinct: bool
    requests: tuple[str, ...]
    needed: int
    best_value: str
    best: int


class Conflict(msgspec.Struct, frozen=True):
    """The smallest set of requests, as (claim, request), that cannot be served together."""

    requests: tuple[tuple[str, str], ...]
    needed: int
    devices: int


class PoolReasons(msgspec.Struct, frozen=True):
    """A pool whose devices could not be used at all."""

    pool: str
    state: str


class Reasons(msgspec.Struct, frozen=True):
    """Everything there is to say about why claims cannot be allocated on a node."""

    node: str
    requests: tuple[RequestReasons, ...]
    constraints: tuple[ConstraintReasons, ...]
    conflict: Conflict | None
    pools: tuple[PoolReasons, ...]

    def line(self) -> str:
        """One line for an event: the first thing that explains the failure."""
        blamed = next((request for request in self.requests if not request.enough), None)
        if blamed is not None:
            text = _shortage(blamed)
        elif self.constraints:
            text = _disagreement(self.constraints[0])
        elif self.conflict is not None:
            text = _conflict(self.conflict)
        else:
            text = "the requests cannot be served together"
        unusable = [f"pool {pool.pool} is {pool.state}" for pool in self.pools]
        return "; ".join([text, *unusable])

    def _explained(self, conflict: Conflict) -> bool:
        """Whether a conflict is no more than a request that lacks devices by itself."""
        lacking = {(request.claim, request.request) for request in self.requests if not request.enough}
        return len(conflict.requests) == 1 and conflict.requests[0] in lacking

    def tree(self) -> str:
        """Several lines for a person: every request with every step."""
        lines = [f"node {self.node}"]
        lines += [f"  pool {pool.pool} is {pool.state}: its devices are not used" for pool in self.pools]
        for request in self.requests:
            lines.append(f"  claim {request.claim}, request {request.request}")
            for alternative in request.alternatives:
                lines += _alternative_lines(alternative, named=len(request.alternatives) > 1)
        lines += [f"  {_disagreement(constraint)}" for constraint in self.constraints]
        if self.conflict is not None and not self._explained(self.conflict):
            lines.append(f"  {_conflict(self.conflict)}")
        return "\n".join(lines)


def _devices(number: int, every: bool = False) -> str:
    if every:
        return f"all {number} devices" if number else "all devices"
    return f"{number} device{'' if number == 1 else 's'}"


def _shortage(request: RequestReasons) -> str:
    parts = []
    for alternative in request.alternatives:
        until = alternative.steps.index(alternative.lost_at) + 1
        chain = ", ".join(f"{step.devices} {step.condition}" for step in alternative.steps[:until])
        parts.append(f"request {alternative.name} needs {_devices(alternative.needed, alternative.every)}: {chain}")
    return f"claim {request.claim}: " + "; or ".join(parts)


def _alternative_lines(alternative: AlternativeReasons, named: bool) -> list[str]:
    title = f"alternative {alternative.name} needs" if named else "needs"
    verdict = "enough" if alternative.enough else "too few"
    lines = [f"    {title} {_devices(alternative.needed, alternative.every)}: {verdict}"]
    lost = None if alternative.enough else alternative.lost_at
    for step in alternative.steps:
        mark = "  <- here" if step is lost else ""
        lines.append(f"      {step.devices:>4} {step.condition}{mark}")
    return lines


def _disagreement(constraint: ConstraintReasons) -> str:
    who = f"claim {constraint.claim}: requests {', '.join(constraint.requests)}"
    if constraint.distinct:
        return f"{who} need {constraint.needed} devices that all differ in {constraint.attribute}"
    if not constraint.best:
        return f"{who} need {constraint.needed} devices that share {constraint.attribute}: no free device has it"
    return (
        f"{who} need {constraint.needed} devices that share {constraint.attribute}: "
        f"its best value, {constraint.best_value}, has {constraint.best} free"
    )


def _conflict(conflict: Conflict) -> str:
    names = ", ".join(f"{request} of claim {claim}" for claim, request in conflict.requests)
    if len(conflict.requests) == 1:
        return f"request {names} cannot be served within its constraints"
    if conflict.devices < conflict.needed:
        share = f"they need {_devices(conflict.needed)}, and only {conflict.devices} can serve any of them"
    else:
        share = "each could be served without the others"
    return f"requests {names} cannot be served together: {share}"
