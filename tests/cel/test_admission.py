"""Expressions of admission policies: what they may be, what they see, when they end."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dray.cel.admission import BUDGET, Compiler, Evaluation, ExpressionUse, OutOfBudget
from dray.cel.errors import Interrupted
from dray.cel.library.times import parse_timestamp
from dray.cel.values import AuthorizerCheck, CelAuthorizer, CelDecision, ResourceCheck

USER = {"username": "jane", "groups": ["devs"], "extra": {"example.com/node": ["n1"]}}
REQUEST = {"operation": "CREATE", "userInfo": USER, "name": "x", "dryRun": False, "options": {"kind": "CreateOptions"}}
NAMESPACE = {
    "metadata": {"name": "ns", "labels": {"a": "b"}, "creationTimestamp": parse_timestamp("2026-01-01T00:00:00Z")}
}
VALUES = {
    "object": {"spec": {"replicas": 3, "names": ["a", "b"], "share": 0.5}},
    "oldObject": None,
    "request": REQUEST,
    "namespaceObject": NAMESPACE,
    "params": {"data": {"most": "4"}},
}


class Asking:
    """Compiles and evaluates for one policy."""

    def __init__(self, *, params: bool = True, budget: int = BUDGET, seconds: float = 60, **variables: str) -> None:
        self.compiler = Compiler(params=params, composed=bool(variables))
        for name, text in variables.items():
            self.compiler.compile("variable", text, name)
        self.read: list[str] = []
        self.values: dict[str, Any] = dict(VALUES)
        deadline = time.monotonic() + seconds
        self.evaluation = Evaluation(self._read, self.compiler.variables, budget, lambda: time.monotonic() > deadline)

    def _read(self, name: str) -> Any:
        self.read.append(name)
        return self.values[name]

    def error(self, text: str, use: ExpressionUse = "validation") -> str:
        """Why the expression does not compile; empty if it does."""
        error = self.compiler.compile(use, text).error
        return error.detail if error is not None else ""

    def __call__(self, text: str, use: ExpressionUse = "validation") -> Any:
        expression = self.compiler.compile(use, text)
        assert expression.error is None, expression.error
        result = self.evaluation.evaluate(expression)
        return result.value if result.error is None else result.error


@pytest.mark.parametrize(
    "text",
    [
        "object.spec.replicas <= int(params.data.most)",
        "oldObject == null",
        "object.spec.names.all(n, n in ['a', 'b'])",
        "object.spec.share < 1.0",
        "has(object.spec.replicas) && !has(object.spec.other)",
        "object.spec.?other.orValue('none') == 'none'",
        "request.operation == 'CREATE' && request.userInfo.username == 'jane'",
        "request.userInfo.extra['example.com/node'][0] == 'n1'",
        "request.userInfo.extra[?'example.com/other'][0].orValue('') == ''",
        "'devs' in request.userInfo.groups",
        "request.options.kind == 'CreateOptions'",
        "namespaceObject.metadata.labels['a'] == 'b'",
        "namespaceObject.metadata.creationTimestamp < timestamp('2026-06-01T00:00:00Z')",
        "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    ],
)
def test_expressions_see_the_request(text: str) -> None:
    assert Asking()(text) is True


@pytest.mark.parametrize(
    ("use", "text", "error"),
    [
        ("validation", "1 + 1", "must evaluate to bool but got int"),
        ("validation", "object.spec.paused", "must evaluate to bool but got dyn"),
        ("condition", "'yes'", "must evaluate to bool but got string"),
        ("message", "1", "must evaluate to string but got int"),
        ("annotation", "1", "must evaluate to one of [string null_type] but got int"),
        ("validation", "request.nope == 1", "undefined field 'nope'"),
        ("validation", "namespaceObject.metadata.uid == ''", "undefined field 'uid'"),
        ("validation", "device.driver == ''", "undeclared reference to 'device'"),
        ("validation", "variables.a", "undeclared reference to 'variables'"),
        ("message", "authorizer.path('/').check('get').reason()", "undeclared reference to 'authorizer'"),
        ("validation", "object.", "Syntax error"),
    ],
)
def test_what_is_wrong_with_an_expression(use: ExpressionUse, text: str, error: str) -> None:
    assert error in Asking().error(text, use)


def test_an_expression_may_not_be_endless() -> None:
    assert Asking().error("'" + "a" * 99_990 + "' != ''") == ""
    error = "expression code point size exceeds limit: size: 100008, limit 100000"
    assert error in Asking().error("'" + "a" * 100_000 + "' != ''")


def test_parameters_are_known_where_the_policy_has_a_kind() -> None:
    assert "undeclared reference to 'params'" in Asking(params=False).error("params.x == 1")
    assert Asking(params=True).error("params.x == 1") == ""


def test_annotations_may_be_null() -> None:
    assert Asking()("null", "annotation") is None
    assert Asking()("'text'", "annotation") == "text"


def test_variables_see_those_before_them_and_have_types() -> None:
    ask = Asking(one="object.spec.replicas + 1", two="variables.one * 2", word="'w'")
    assert ask("variables.two == 8") is True
    assert "undefined field 'three'" in ask.error("variables.three == 1")
    assert "found no matching overload" in ask.error("variables.word + 1 == 2")
    assert (
        "undefined field 'later'" in Asking(early="variables.later", later="1").compiler.variables["early"].error.detail
    )  # type: ignore[union-attr]
    assert "undeclared reference to 'variables'" in ask.error("variables.one == 1", "condition")


def test_variables_are_evaluated_when_they_are_needed_and_once() -> None:
    ask = Asking(unused="oldObject.spec.nope", total="object.spec.names.map(n, n + n).join('')", known="request.name")
    assert ask("variables.known == 'x'") is True
    assert ask.read == ["request"]
    assert ask("variables.total == 'aabb'") is True
    ask.values["object"] = None
    assert ask("variables.total + variables.total == 'aabbaabb'") is True


def test_the_error_of_a_variable_names_it() -> None:
    ask = Asking(bad="object.spec.nope")
    text = 'composited variable "bad" fails to evaluate: no such key: nope'
    assert ask("variables.bad == 1") == text
    assert ask("variables.bad == 1") == text
    assert ask("true || variables.bad == 1") is True


def test_a_missing_field_is_an_error_of_the_evaluation() -> None:
    assert Asking()("object.spec.nope == 1") == "no such key: nope"
    assert Asking()("oldObject.spec == 1") == "no such key: spec"


def test_an_expression_that_costs_too_much_is_cut_off() -> None:
    ask = Asking()
    ask.values["object"] = list(range(1000))
    loop = "object.all(a, object.all(b, object.all(c, a + b + c >= 0)))"
    assert ask(loop) == "operation cancelled: actual cost limit exceeded"


def test_a_policy_that_costs_too_much_ends() -> None:
    ask = Asking(budget=30)
    loop = "object.spec.names.all(n, n != '')"
    assert ask(loop) is True
    assert ask(loop) is True
    with pytest.raises(OutOfBudget, match="running out of cost budget"):
        ask(f"{loop} && {loop}")


def test_variables_are_paid_from_the_same_budget() -> None:
    ask = Asking(budget=10, dear="[1, 2, 3].map(n, n * 2).map(n, n * 2)")
    with pytest.raises(OutOfBudget):
        ask("true || variables.dear == [1] || variables.dear.size() == 3 ? variables.dear.size() == 3 : false")


def test_an_evaluation_that_takes_too_long_is_interrupted() -> None:
    ask = Asking(seconds=0.05)
    ask.values["object"] = list(range(1000))
    began = time.process_time()
    with pytest.raises(Interrupted):
        ask("object.all(a, object.all(b, a + b >= 0))")
    assert time.process_time() - began < 2


def authorizing(*allowed: AuthorizerCheck) -> Asking:
    def answer(question: AuthorizerCheck) -> CelDecision:
        return CelDecision(question in allowed, "rule" if question in allowed else "")

    ask = Asking()
    ask.values["authorizer"] = CelAuthorizer(answer)
    ask.values["authorizer.requestResource"] = ResourceCheck(answer, AuthorizerCheck(group="g", resource="r", name="x"))
    return ask


def test_expressions_ask_the_authorizer() -> None:
    ask = authorizing(
        AuthorizerCheck("get", resource="pods", subresource="log", namespace="ns", name="p"),
        AuthorizerCheck("get", path="/healthz"),
        AuthorizerCheck("approve", group="g", resource="r", name="x"),
        AuthorizerCheck("list", resource="pods", account=("ns", "robot"), field_selector="spec.nodeName=n"),
    )
    pod_log = "authorizer.group('').resource('pods').subresource('log').namespace('ns').name('p')"
    assert ask(f"{pod_log}.check('get').allowed()") is True
    assert ask(f"{pod_log}.check('get').reason() == 'rule'") is True
    assert ask(f"{pod_log}.check('delete').allowed()") is False
    assert ask("authorizer.path('/healthz').check('get').allowed()") is True
    assert ask("authorizer.requestResource.check('approve').allowed()") is True
    robot = "authorizer.serviceAccount('ns', 'robot').group('').resource('pods').fieldSelector('spec.nodeName=n')"
    assert ask(f"{robot}.labelSelector('a=b').check('list').allowed()") is True
    assert ask(f"{robot}.check('list').errored()") is False
    assert ask(f"{robot}.check('list').error() == ''") is True


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
        ("authorizer.serviceAccount('ns', 'A').path('/').check('get').allowed()", "Invalid service account name"),
        ("authorizer.serviceAccount('N', 'a').path('/').check('get').allowed()", "Invalid service account namespace"),
    ],
)
def test_questions_that_cannot_be_asked(text: str, error: str) -> None:
    assert authorizing()(text) == error


def test_an_expression_may_ask_the_authorizer_twice() -> None:
    check = "!authorizer.path('/').check('get').allowed()"
    assert authorizing()(f"{check} && {check}") is True
    assert authorizing()(f"{check} && {check} && {check}") == "operation cancelled: actual cost limit exceeded"
