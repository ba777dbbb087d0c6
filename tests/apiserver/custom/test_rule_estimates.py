"""Rules in the style of published definitions cost what Kubernetes estimates, to the point.

The generator computes the cost of each rule that it makes from Kubernetes' rules: a name or a field costs one, a literal
nothing; a pass over a text costs a tenth of its greatest size, a regular expression a quarter of its length times a tenth of the
text; a loop costs its body times the greatest number of elements. `test_the_recorded_estimates_follow_the_same_rules` applies
the same functions to recorded answers of Kubernetes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.allocatorkit.cases import SELECTORS, lines
from dray.api.custom.structure import compiled
from dray.apiserver.custom.rules import RULE_LIMIT, errors, faults

PATTERNS = ["^[a-z]+$", "^[a-z]([-a-z0-9]*[a-z0-9])?$", "a[0-9]+"]
WORDS = ["a", "good", "some-longer-word-than-that"]
DRIVER_SIZE, MOST_DOMAINS, DOMAIN_SIZE = 63, 32, 63  # of devices, in the recorded estimates


def words_pass(size: int) -> int:
    """The cost of a pass over a text."""
    return math.ceil(size / 10)


@dataclass(frozen=True)
class Text:
    """An expression that gives a text: what it costs, and how large the text can be."""

    source: str
    cost: int
    most: int


@dataclass(frozen=True)
class Rule:
    """An expression that gives a bool, and what it costs."""

    source: str
    cost: int


def equal(text: Text, word: str) -> Rule:
    return Rule(f"{text.source} == {word!r}", text.cost + words_pass(min(text.most, len(word))))


def begins(text: Text, word: str) -> Rule:
    return Rule(f"{text.source}.startsWith({word!r})", text.cost + words_pass(len(word)))


def contains(text: Text, word: str) -> Rule:
    return Rule(f"{text.source}.contains({word!r})", text.cost + words_pass(text.most) * words_pass(len(word)))


def long_enough(text: Text, word: str) -> Rule:
    return Rule(f"{text.source}.size() >= {len(word)}", text.cost + 1 + 1)


def regex(text: Text, pattern: str) -> int:
    return words_pass(text.most + 1) * math.ceil(len(pattern) / 4)


def matches(text: Text, pattern: str) -> Rule:
    return Rule(f"{text.source}.matches({pattern!r})", text.cost + regex(text, pattern))


def finds(text: Text, pattern: str) -> Rule:
    return Rule(f"{text.source}.find({pattern!r}) != ''", text.cost + regex(text, pattern))


def negated(rule: Rule) -> Rule:
    return Rule(f"!({rule.source})", rule.cost + 1)


def both(left: Rule, right: Rule) -> Rule:
    return Rule(f"({left.source}) && ({right.source})", left.cost + right.cost)


def either(left: Rule, right: Rule) -> Rule:
    return Rule(f"({left.source}) || ({right.source})", left.cost + right.cost)


def every(over: Text, name: str, body: Rule) -> Rule:
    return Rule(f"{over.source}.all({name}, {body.source})", over.cost + 1 + over.most * (2 + 1 + body.cost))


def some(over: Text, name: str, body: Rule) -> Rule:
    return Rule(f"{over.source}.exists({name}, {body.source})", over.cost + 1 + over.most * (3 + 1 + body.cost))


ON_TEXTS = [
    (equal, WORDS),
    (begins, WORDS),
    (contains, WORDS),
    (long_enough, WORDS),
    (matches, PATTERNS),
    (finds, PATTERNS),
]


# Schemas


def text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema with fields as published definitions have them: names of keywords, enums, maps, lists of objects."""
    size = st.integers(1, 40)
    port = {"type": "object", "properties": {"name": text(draw(size)), "package": text(draw(size))}}
    values = {"type": "object", "maxProperties": draw(size), "additionalProperties": text(draw(size))}
    return {
        "type": "object",
        "properties": {
            "namespace": text(draw(size)),
            "note": text(draw(size)),
            "phase": {"type": "string", "enum": ["Ready", "Pending", "Failed"]},
            "host": {"type": "string", "format": "hostname", "maxLength": draw(size)},
            "names": {"type": "array", "maxItems": draw(size), "items": text(draw(size))},
            "ports": {"type": "array", "maxItems": draw(size), "items": port},
            "labels": values,
        },
    }


def size_of(schema: dict[str, Any]) -> int:
    """The greatest size that Kubernetes estimates: four bytes for a character, but for formats and enums."""
    if "enum" in schema:
        return max(map(len, schema["enum"]))
    for limit in ("maxItems", "maxProperties"):
        if limit in schema:
            return int(schema[limit])
    return int(schema["maxLength"]) * (1 if "format" in schema else 4)


@st.composite
def rules(draw: st.DrawFn, properties: dict[str, Any]) -> Rule:
    def judged(text: Text) -> Rule:
        rule, arguments = draw(st.sampled_from(ON_TEXTS))
        return rule(text, draw(st.sampled_from(arguments)))

    def field(name: str) -> Text:
        return Text(f"self.{name}", 2, size_of(properties[name]))

    def simple() -> Rule:
        name = draw(st.sampled_from(["namespace", "__namespace__", "note", "phase", "host"]))
        return judged(Text(f"self.{name}", 2, size_of(properties[name.strip("_")])))

    def optional() -> Rule:
        word = draw(st.sampled_from(WORDS))
        return draw(
            st.sampled_from(
                [
                    either(negated(Rule("has(self.note)", 1)), judged(field("note"))),
                    Rule(f"self.?note.orValue({word!r}) == {word!r}", 1 + 1 + 1 + words_pass(len(word))),
                ]
            )
        )

    def loop() -> Rule:
        quantifier = draw(st.sampled_from([every, some]))
        kind = draw(st.sampled_from(["names", "ports", "keys", "values"]))
        if kind == "names":
            element = Text("name", 1, size_of(properties["names"]["items"]))
            return quantifier(field("names"), "name", judged(element))
        if kind == "ports":
            part = draw(st.sampled_from(["name", "package"]))
            element = Text(f"port.{part}", 2, size_of(properties["ports"]["items"]["properties"][part]))
            return quantifier(field("ports"), "port", judged(element))
        if kind == "keys":  # estimated as empty texts
            return quantifier(field("labels"), "key", judged(Text("key", 1, 0)))
        value = Text("self.labels[key]", 2 + 1 + 1, size_of(properties["labels"]["additionalProperties"]))
        return quantifier(field("labels"), "key", judged(value))

    parts = [draw(st.sampled_from([simple, optional, loop]))() for _ in range(draw(st.integers(1, 3)))]
    whole = parts[0]
    for part in parts[1:]:
        whole = draw(st.sampled_from([both, either]))(whole, part)
    return negated(whole) if draw(st.booleans()) else whole


@st.composite
def objects(draw: st.DrawFn, schema: dict[str, Any]) -> Any:
    """An object that is valid by the schema."""
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if schema["type"] == "string":
        return draw(st.text("ab-9", max_size=schema["maxLength"]))
    if schema["type"] == "array":
        return draw(st.lists(objects(schema["items"]), max_size=min(4, schema["maxItems"])))
    if "additionalProperties" in schema:
        most = min(4, schema["maxProperties"])
        keys = draw(st.lists(st.text("ab", max_size=9), unique=True, max_size=most))
        return {key: draw(objects(schema["additionalProperties"])) for key in keys}
    return {name: draw(objects(part)) for name, part in schema["properties"].items()}


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], Rule, Any]:
    schema = draw(schemas())
    return schema, draw(rules(schema["properties"])), draw(objects(schema))


def refusals(schema: dict[str, Any], rule: Rule, times: int) -> list[str]:
    """What is wrong with a definition that has the rule in a list of so many elements."""
    element = {**schema, "x-kubernetes-validations": [{"rule": rule.source}]}
    items = {"type": "array", "maxItems": times, "items": element}
    return [str(error) for error in faults(compiled({"type": "object", "properties": {"x": items}}))]


@given(cases())
@settings(max_examples=300)
def test_a_rule_is_refused_from_the_very_size_on_at_which_its_estimate_exceeds_the_limit(
    case: tuple[dict[str, Any], Rule, Any],
) -> None:
    schema, rule, value = case
    most = RULE_LIMIT // rule.cost
    assert refusals(schema, rule, most) == []
    (refusal,) = refusals(schema, rule, most + 1)
    assert "estimated rule cost exceeds budget" in refusal
    element = {**schema, "x-kubernetes-validations": [{"rule": rule.source}]}
    told = errors(compiled({"type": "object", "properties": {"x": element}}), {"x": value}, None)
    assert not [error for error in told if "evaluating" in error.detail or "budget" in error.detail]


RECORDED = {
    case["expr"]: case["want"]["maxCost"]
    for line in lines(SELECTORS)
    if "maxCost" in (case := json.loads(line))["want"]
}
DRIVER = Text("device.driver", 2, DRIVER_SIZE)
DOMAINS = Text("device.attributes", 2, MOST_DOMAINS)
DOMAIN = Text("d", 1, DOMAIN_SIZE)
FAMILY = 'device.attributes["ext.example.org"].?family.orValue("") == "ampere"'


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        (equal(DRIVER, "gpu.example.com"), 'device.driver == "gpu.example.com"'),
        (begins(DRIVER, "gpu"), 'device.driver.startsWith("gpu")'),
        (matches(DRIVER, "^[a-z]+[.]example[.](com|org)$"), 'device.driver.matches("^[a-z]+[.]example[.](com|org)$")'),
        (long_enough(DRIVER, "x" * 10), "device.driver.size() > 10"),
        (some(DOMAINS, "d", equal(DOMAIN, "gpu.example.com")), 'device.attributes.exists(d, d == "gpu.example.com")'),
        (every(DOMAINS, "d", contains(DOMAIN, ".")), 'device.attributes.all(d, d.contains("."))'),
        (Rule("", 3 + 1 + 1 + words_pass(len("ampere"))), FAMILY),
        (Rule("", finds(Text("", 0, len("abc123")), "[0-9]+").cost + 1), '"abc123".find("[0-9]+") == "123"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_recorded_estimates_follow_the_same_rules(rule: Rule, written: str) -> None:
    assert rule.cost == RECORDED[written]
