"""The roles of the chart: what they grant, and what was asked of a server while somebody had them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from dray.api.users import User
from dray.api.wire import Tree
from dray.apiserver.security.authorization import Attributes, Decision, Union

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "chart"


class Permission(NamedTuple):
    """One verb on one resource; `/` separates a subresource."""

    verb: str
    resource: str
    group: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{f'.{self.group}' if self.group else ''}"


def role(name: str) -> list[Tree]:
    """The rules of a role of the chart."""
    rules: list[Tree] = yaml.safe_load((CHART / "roles" / f"{name}.yaml").read_text())
    return rules


def granted(rules: Iterable[Tree]) -> set[Permission]:
    """What the rules grant on resources."""
    return {
        Permission(verb, resource, group)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@dataclass
class Asked:
    """What one user asked of a server: what was allowed, and what was refused."""

    allowed: set[Permission] = field(default_factory=set)
    refused: set[Permission] = field(default_factory=set)


def watch_requests(monkeypatch: pytest.MonkeyPatch, user: str) -> Asked:
    """Note every question to the authorizers of this process about a user."""
    asked, authorize = Asked(), Union.authorize

    def noting(self: Union, who: User, attributes: Attributes) -> Decision:
        decision = authorize(self, who, attributes)
        if who.name == user:
            resource = "/".join(filter(None, (attributes.resource, attributes.subresource)))
            found = Permission(attributes.verb, resource, attributes.group)
            (asked.allowed if decision.allowed else asked.refused).add(found)
        return decision

    monkeypatch.setattr(Union, "authorize", noting)
    return asked
