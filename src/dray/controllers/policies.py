"""Reports in the status of admission policies which expressions do not fit the kinds that the policy matches.

Only rules that name groups, versions and resources determine kinds; what other rules match is unknown before a
request comes. A warning does not change what a policy does. Modules for expressions are imported only when a policy
exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dray.api.errors import NotFound
from dray.api.resources import RESOURCES, Resource
from dray.api.types.admissionregistration import ExpressionWarning, TypeChecking, ValidatingAdmissionPolicy
from dray.client import Deltas
from dray.controllers.context import ControllerContext
from dray.controllers.custom import CustomResources

if TYPE_CHECKING:
    from dray.cel.kinds import KindCheck

MOST_KINDS = 10  # as in Kubernetes; every expression is checked for every kind


class PolicyStatus:
    """Type-checks each policy once per generation and writes the warnings to its status."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._custom = CustomResources(context)
        self._policies = context.informers.informer(ValidatingAdmissionPolicy)
        self._policies.add_handler(self._on_policies)
        self._controller = context.controller("policy_status", self._reconcile)
        self.run = self._controller.run

    def _on_policies(self, deltas: Deltas[ValidatingAdmissionPolicy]) -> None:
        for _, new in deltas:
            if new is not None and not _is_observed(new):
                self._controller.queue.add(new.metadata.name)

    async def _reconcile(self, name: str) -> None:
        policy = self._policies.get("", name)
        if policy is None or _is_observed(policy):
            return
        warnings = []
        for field, warning in expression_warnings(policy, self._custom.all()):
            if warning:
                warnings.append(ExpressionWarning(fieldRef=field, warning=warning))
            await asyncio.sleep(0)  # policies may be many; other tasks must run
        status = replace(
            policy.status,
            observedGeneration=policy.metadata.generation,
            typeChecking=TypeChecking(expressionWarnings=tuple(warnings)),
        )
        with suppress(NotFound):
            await self._client.patch_status(policy, status)


def expression_warnings(
    policy: ValidatingAdmissionPolicy, custom: Sequence[Resource] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each field with an expression and its warning, which is "" if the expression fits all kinds.

    Fields are named by their path, such as `spec.validations[0].expression`; empty fields are left out.
    """
    checks = _checks(policy, custom)
    for index, validation in enumerate(policy.spec.validations):
        for field in ("expression", "messageExpression"):
            if text := getattr(validation, field):
                found = [f"{check.kind}: {complaint}\n" for check in checks if (complaint := check.complaint(text))]
                yield f"spec.validations[{index}].{field}", "\n".join(found)


def _checks(policy: ValidatingAdmissionPolicy, custom: Sequence[Resource]) -> list[KindCheck]:
    from dray.cel.kinds import KindCheck, type_of_kind

    spec = policy.spec
    params = type_of_kind(spec.paramKind.apiVersion, spec.paramKind.kind) if spec.paramKind is not None else None
    variables = [(variable.name, variable.expression) for variable in spec.variables]
    return [KindCheck(resource, version, params, variables) for resource, version in kinds(policy, custom)]


def kinds(policy: ValidatingAdmissionPolicy, custom: Sequence[Resource] = ()) -> list[tuple[Resource, str]]:
    """Return the resources and versions that a policy's rules name, at most `MOST_KINDS`. Wildcards are ignored.

    The result is sorted by group, version and kind. `custom` are the custom resources that are served.
    """
    match = policy.spec.matchConstraints
    found = {
        (resource, version)
        for rule in (match.resourceRules if match is not None else ())
        for resource in (*RESOURCES, *custom)
        if resource.group in rule.apiGroups and resource.plural in rule.resources
        for version in resource.versions
        if version in rule.apiVersions
    }
    return sorted(found, key=lambda kind: (kind[0].group, kind[1], kind[0].kind))[:MOST_KINDS]


def _is_observed(policy: ValidatingAdmissionPolicy) -> bool:
    return policy.status.observedGeneration >= policy.metadata.generation
