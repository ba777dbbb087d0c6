"""Validation of admission policies and their bindings."""

from __future__ import annotations

from collections.abc import Mapping

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.names import CEL_RESERVED
from dray.api.paths import SPEC, Path
from dray.api.rules import Errors, named, one_of, required_one_of
from dray.api.types.admissionregistration import (
    AuditAnnotation,
    MutatingAdmissionPolicySpec,
    Mutation,
    ParamKind,
    ParamRef,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from dray.api.validation.context import Context, ExpressionUse
from dray.api.validation.expressions import Expressions, Stored, match_conditions, texts
from dray.api.validation.placement import label_selector

MAX_ANNOTATIONS = 20
MAX_ANNOTATION_LENGTH = 5 * 1024
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_NO_ITEMS = "validations or auditAnnotations must contain at least one item"
_MUTATIONS: Mapping[str, ExpressionUse] = {"ApplyConfiguration": "mutation", "JSONPatch": "json patch"}
_MUTATION_FIELDS = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
PolicySpec = ValidatingAdmissionPolicySpec | MutatingAdmissionPolicySpec
_FAILURE_POLICIES = ("Fail", "Ignore")
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_MATCH = "io.k8s.api.admissionregistration.v1.MatchResources"
_EXCLUSIVE = "name and selector are mutually exclusive"


def validating_policy(
    policy: ValidatingAdmissionPolicy, old: ValidatingAdmissionPolicy | None, _: Path | None, context: Context
) -> Errors:
    yield from _spec(policy, _expressions(policy.spec, context, _stored(old.spec) if old is not None else {}))


def mutating_policy(
    spec: MutatingAdmissionPolicySpec, old: MutatingAdmissionPolicySpec | None, path: Path, context: Context
) -> Errors:
    yield from _mutating_spec(spec, _expressions(spec, context, _stored_mutations(old) if old is not None else {}))


# Policies


def _expressions(spec: PolicySpec, context: Context, stored: Stored) -> Expressions:
    return Expressions(context.policy_expressions(spec.paramKind is not None, bool(spec.variables)), stored)


def _stored(spec: ValidatingAdmissionPolicySpec) -> Stored:
    return {
        "condition": texts(spec.matchConditions),
        "variable": {variable.expression for variable in spec.variables},
        "validation": {validation.expression for validation in spec.validations},
        "message": {validation.messageExpression for validation in spec.validations},
        "annotation": {annotation.valueExpression.strip() for annotation in spec.auditAnnotations},
    }


def _stored_mutations(spec: MutatingAdmissionPolicySpec) -> Stored:
    return {
        "condition": texts(spec.matchConditions),
        "variable": {variable.expression for variable in spec.variables},
        "mutation": {_mutation_text(mutation) for mutation in spec.mutations},
        "json patch": {_mutation_text(mutation) for mutation in spec.mutations},
    }


def _spec(policy: ValidatingAdmissionPolicy, expressions: Expressions) -> Errors:
    spec = policy.spec
    yield from _common(spec, expressions)
    if not spec.validations and not spec.auditAnnotations:
        yield required(SPEC / "validations", _NO_ITEMS)
        yield required(SPEC / "auditAnnotations", _NO_ITEMS)
    for index, validation in enumerate(spec.validations):
        yield from _validation(validation, SPEC / "validations" / index, expressions)
    yield from _annotations(policy, expressions)


def _mutating_spec(spec: MutatingAdmissionPolicySpec, expressions: Expressions) -> Errors:
    yield from _common(spec, expressions)
    if not spec.mutations:
        yield required(SPEC / "mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(spec.mutations):
        yield from _mutation(mutation, SPEC / "mutations" / index, expressions)
    yield from required_one_of(spec.reinvocationPolicy, _REINVOCATION_POLICIES, SPEC / "reinvocationPolicy")


def _mutation_text(mutation: Mutation) -> str:
    chosen = mutation.applyConfiguration or mutation.jsonPatch
    return chosen.expression.strip() if chosen is not None else ""


def _mutation(mutation: Mutation, path: Path, expressions: Expressions) -> Errors:
    use = _MUTATIONS.get(mutation.patchType)
    if not mutation.patchType:
        yield required(path / "patchType")
        return
    if use is None:
        yield unsupported(path / "patchType", mutation.patchType, sorted(_MUTATIONS))
        return
    for patch_type, field in _MUTATION_FIELDS.items():
        chosen = getattr(mutation, field)
        if patch_type != mutation.patchType and chosen is not None:
            yield required(path / field, f"{field} must not be specified when patchType is {mutation.patchType}")
        elif patch_type == mutation.patchType and (chosen is None or not chosen.expression.strip()):
            yield required(path / field / "expression", "expression is not specified")
        elif patch_type == mutation.patchType:
            yield from expressions.check(use, chosen.expression.strip(), path / field / "expression")


def _common(spec: PolicySpec, expressions: Expressions) -> Errors:
    """Yield errors in the fields that all policies have: matching, parameters, conditions and variables."""
    yield from one_of(spec.failurePolicy, _FAILURE_POLICIES, SPEC / "failurePolicy")
    yield from _param_kind(spec.paramKind, SPEC / "paramKind")
    if spec.matchConstraints is None:
        yield required(SPEC / "matchConstraints")
    else:
        yield from checked(_MATCH, spec.matchConstraints, SPEC / "matchConstraints")
        if not spec.matchConstraints.resourceRules:
            yield required(SPEC / "matchConstraints" / "resourceRules")
    yield from match_conditions(spec.matchConditions, SPEC / "matchConditions", expressions)
    for index, variable in enumerate(spec.variables):
        yield from _variable(variable, SPEC / "variables" / index, expressions)


def _param_kind(kind: ParamKind | None, path: Path) -> Errors:
    if kind is None:
        return
    group, _, version = kind.apiVersion.rpartition("/")
    if not kind.apiVersion:
        yield required(path / "apiVersion")
    elif "/" in group:
        yield invalid(path / "apiVersion", kind.apiVersion, f"unexpected GroupVersion string: {kind.apiVersion}")
    else:
        yield from named(group, path / "apiVersion", names.subdomain) if group else ()
        yield from named(version, path / "apiVersion", names.label_1035)
    if not kind.kind:
        yield required(path / "kind")
    else:
        for text in names.label_1035(kind.kind.lower()):
            yield invalid(path / "kind", kind.kind, f"may have mixed case, but should otherwise match: {text}")


def _variable(variable: Variable, path: Path, expressions: Expressions) -> Errors:
    if not variable.name.strip():
        yield required(path / "name", "name is not specified")
    elif names.c_identifier(variable.name) or variable.name in CEL_RESERVED:
        yield invalid(path / "name", variable.name, "name is not a valid CEL identifier")
    if not variable.expression.strip():
        yield required(path / "expression", "expression is not specified")
    else:
        yield from expressions.check("variable", variable.expression, path / "expression", variable.name)


def _validation(validation: Validation, path: Path, expressions: Expressions) -> Errors:
    if not validation.expression.strip():
        yield required(path / "expression", "expression is not specified")
    else:
        yield from expressions.check("validation", validation.expression, path / "expression")
    message, computed = validation.message, validation.messageExpression
    if computed and not computed.strip():
        yield invalid(path / "messageExpression", computed, "must be non-empty if specified")
    elif computed:
        yield from expressions.check("message", computed, path / "messageExpression")
    if message and not message.strip():
        yield invalid(path / "message", message, "message must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield invalid(path / "message", message, "message must not contain line breaks")
    yield from one_of(validation.reason, _REASONS, path / "reason")


def _annotations(policy: ValidatingAdmissionPolicy, expressions: Expressions) -> Errors:
    annotations, path = policy.spec.auditAnnotations, SPEC / "auditAnnotations"
    if len(annotations) > MAX_ANNOTATIONS:
        text = f"must not have more than {MAX_ANNOTATIONS} auditAnnotations"
        yield invalid(path, [annotation.key for annotation in annotations], text)
        return
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        yield from _annotation(annotation, policy.metadata.name, path / index, expressions)
        if annotation.key in seen:
            yield duplicate(path / index / "key", annotation.key)
        seen.add(annotation.key)


def _annotation(annotation: AuditAnnotation, policy: str, path: Path, expressions: Expressions) -> Errors:
    yield from named(f"{policy}/{annotation.key}", path / "key", names.qualified_name)
    text = annotation.valueExpression.strip()
    if not text:
        yield required(path / "valueExpression", "valueExpression is not specified")
    elif len(text.encode()) > MAX_ANNOTATION_LENGTH:
        yield required(path / "valueExpression", f"must not exceed {MAX_ANNOTATION_LENGTH} bytes in length")
    else:
        yield from expressions.check("annotation", text, path / "valueExpression")


# Bindings


def param_ref(reference: ParamRef, path: Path) -> Errors:
    """Yield errors unless a binding selects its parameters by exactly one of a valid name and a valid selector."""
    if reference.name:
        yield from named(reference.name, path / "name", names.path_segment)
        if reference.selector is not None:
            yield forbidden(path / "name", _EXCLUSIVE)
    yield from label_selector(reference.selector, path / "selector")
    if reference.name and reference.selector is not None:
        yield forbidden(path / "selector", _EXCLUSIVE)
    if not reference.name and reference.selector is None:
        yield required(path, "one of name or selector must be specified")
