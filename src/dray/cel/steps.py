"""The interpreter: an expression as a tree of steps, evaluated the way the reference does it.

Errors are values here, so that `&&`, `||` and loops can absorb them and both sides of an operator
are looked at, and every step is charged. This is the slow and complete evaluation; what
`codegen` makes of the same expression is fast and gives up at the first irregularity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dray.cel.declarations import Bound, Run
from dray.cel.errors import CostExceeded, EvaluationError, Interrupted, NoSuchKey, NoSuchOverload
from dray.cel.library.operators import contains
from dray.cel.limits import STEP_COST, STEP_EFFORT, EffortAccount, Interrupt
from dray.cel.prices import Charge
from dray.cel.types import Type
from dray.cel.values import MAPS, NONE, Made, Optional, Uint, Value, keys, map_key, show, type_name

_CHECK_FREQUENCY = 100  # how many rounds of a loop pass between two questions whether to go on
_FATAL = (CostExceeded, Interrupted)
_GO_TYPES = {
    "bool": "Bool",
    "int": "Int",
    "uint": "Uint",
    "double": "Double",
    "string": "String",
    "bytes": "Bytes",
    "null_type": "Null",
    "google.protobuf.Timestamp": "Timestamp",
    "google.protobuf.Duration": "Duration",
}


class CostMeter:
    """What an evaluation has cost, and who says that it must end."""

    __slots__ = ("_rounds", "account", "cost", "interrupt", "limit")

    def __init__(self, limit: int, interrupt: Interrupt | None = None) -> None:
        self.cost = 0
        self.account = EffortAccount()
        self.limit = limit
        self.interrupt = interrupt
        self._rounds = 0

    @property
    def steps(self) -> int:
        """Steps that the evaluation took."""
        return 1 + self.cost // STEP_COST + self.account.spent // STEP_EFFORT

    def spend(self, cost: int) -> None:
        """Add to the cost; raises CostExceeded."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded

    def round(self) -> None:
        """Count a round of a loop; raises Interrupted."""
        self._rounds += 1
        if self.interrupt is not None and self._rounds % _CHECK_FREQUENCY == 0 and self.interrupt():
            raise Interrupted


class VariableScope:
    """The variables in sight: those of one loop or binding, and behind them the outer ones."""

    __slots__ = ("meter", "parent", "values")

    def __init__(self, meter: CostMeter, values: dict[str, Value], parent: VariableScope | None = None) -> None:
        self.meter = meter
        self.values = values
        self.parent = parent

    def find(self, name: str) -> Value:
        """The value of a variable; a lazy one is evaluated at its first use."""
        scope = self
        while name not in scope.values:
            assert scope.parent is not None  # the checker has resolved every name
            scope = scope.parent
        value = scope.values[name]
        if isinstance(value, _Lazy):
            value = scope.values[name] = value.evaluate()
        return value

    def root(self) -> VariableScope:
        """The scope of the device."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope


class Step(Protocol):
    """A part of an expression; its value, or the error it has instead of one."""

    def run(self, scope: VariableScope) -> Value: ...


class _Lazy:
    def __init__(self, step: Step, scope: VariableScope) -> None:
        self._step = step
        self._scope = scope

    def evaluate(self) -> Value:
        value = self._step.run(self._scope)
        if value.__class__ is list and not value:
            return []  # a fresh one: loops append to it in place
        return {} if value.__class__ is dict and not value else value


@dataclass(slots=True)
class Constant:
    """A literal, or what could be computed from literals."""

    value: Value

    def run(self, scope: VariableScope) -> Value:
        return self.value


@dataclass(slots=True)
class Qualifier:
    """One step down into a value: a field name, or a key or index.

    `key` is the constant, or what computes it. With `optional`, absence is no error; with `test`,
    presence is all that is asked.
    """

    key: Value
    constant: bool
    optional: bool = False
    test: bool = False

    def apply(self, scope: VariableScope, value: Value, tolerant: bool) -> tuple[bool, Value]:
        """Whether there is something, and what; raises EvaluationError."""
        presence = tolerant or self.test
        try:
            found, result = qualify(value, self._key(scope), presence)
        except _FATAL:
            raise
        except EvaluationError:
            scope.meter.spend(0 if tolerant else 1)
            raise
        if found or not tolerant:
            scope.meter.spend(1)
        return (found, result) if not self.test or tolerant else (True, found)

    def _key(self, scope: VariableScope) -> Value:
        if self.constant:
            return self.key
        if isinstance(self.key, (Attribute, Conditional)):
            return self.key.resolve(scope)
        step: Step = self.key  # type: ignore[assignment]  # not constant, hence a step
        return _value(step.run(scope))


def qualify(value: Value, key: Value, presence: bool) -> tuple[bool, Value]:
    """Look a key or index up; raises EvaluationError unless only presence is asked for."""
    if value.__class__ in MAPS:
        mapping: Mapping[Value, Value] = value
        if key.__class__.__hash__ is not None and (map_key(key) in mapping or hasattr(mapping, "__missing__")):
            return True, mapping[map_key(key)]
    elif isinstance(value, list):
        index = _index(key)
        if 0 <= index < len(value):
            return True, value[index]
        if not presence:
            raise EvaluationError(f"index out of bounds: {show(key)}")
    if presence:
        return False, None
    raise NoSuchKey(show(key))


def _index(key: Value) -> int:
    if key.__class__ is int or key.__class__ is Uint:
        return int(key)
    if isinstance(key, float):
        if key.is_integer():
            return int(key)
        raise EvaluationError(f"unsupported index value {show(key)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(key)}' in list")


def _value(value: Value) -> Value:
    """The value itself; raises it where it is an error."""
    if isinstance(value, EvaluationError):
        raise value.with_traceback(None)  # a loop raises one error again and again, and each time makes it longer
    return value


@dataclass(slots=True)
class Attribute:
    """A variable, or the value of another step, and the way down from there.

    It is charged as a whole; the steps down are charged one by one as they are taken.
    """

    base: str | Step
    is_global: bool = False
    qualifiers: list[Qualifier] = field(default_factory=list)
    test: bool = False

    def add(self, qualifier: Qualifier) -> None:
        self.qualifiers.append(qualifier)
        self.test = self.test or qualifier.test

    def resolve(self, scope: VariableScope) -> Value:
        """The value; raises EvaluationError."""
        value = _value(self._base(scope))
        optional = isinstance(value, Optional) and bool(self.qualifiers)
        if optional and isinstance(value, Optional):
            if not value.present:
                return NONE
            value = value.value
        for qualifier in self.qualifiers:
            optional = optional or qualifier.optional
            found, value = qualifier.apply(scope, value, optional)
            if not found:
                return NONE
        return Optional(value) if optional else value

    def _base(self, scope: VariableScope) -> Value:
        if isinstance(self.base, str):
            return scope.root().values[self.base] if self.is_global else scope.find(self.base)
        return self.base.run(scope)

    def run(self, scope: VariableScope) -> Value:
        value = _attempt(self.resolve, scope)
        scope.meter.spend(0 if self.test else 1)
        return value.present if self.test and isinstance(value, Optional) else value


@dataclass(slots=True)
class Conditional:
    """`condition ? truthy : falsy`; free itself, and a variable it yields is free too."""

    condition: Step
    truthy: Attribute | Conditional
    falsy: Attribute | Conditional
    test: bool = False

    def add(self, qualifier: Qualifier) -> None:
        self.truthy.add(qualifier)
        self.falsy.add(qualifier)
        self.test = self.test or qualifier.test

    def resolve(self, scope: VariableScope) -> Value:
        condition = self.condition.run(scope)
        if condition is True:
            return self.truthy.resolve(scope)
        if condition is False:
            return self.falsy.resolve(scope)
        _value(condition)
        raise NoSuchOverload

    def run(self, scope: VariableScope) -> Value:
        value = _attempt(self.resolve, scope)
        scope.meter.spend(-1 if self.test else 0)  # a presence test is given back even where it was never charged
        return value.present if self.test and isinstance(value, Optional) else value


def _attempt(run: Run, *args: object) -> Value:
    """What a function gives, or the error that it raises; those that end the evaluation go on."""
    try:
        return run(*args)
    except _FATAL:
        raise
    except EvaluationError as error:
        return error


@dataclass(slots=True)
class Logical:
    """`&&` and `||`: `decisive` on either side decides, whatever error the other side is."""

    left: Step
    right: Step
    decisive: bool

    def run(self, scope: VariableScope) -> Value:
        error: EvaluationError | None = None
        for term in (self.left, self.right):
            value = term.run(scope)
            if value is self.decisive:
                return value
            if value.__class__ is not bool and error is None:
                error = value if isinstance(value, EvaluationError) else NoSuchOverload()
        return not self.decisive if error is None else error


@dataclass(slots=True)
class Invocation:
    """A call. All arguments are evaluated even if one is an error, unless it `stops` at the first."""

    function: str
    overload: str
    args: tuple[Step, ...]
    implementation: Bound
    stops: bool = False
    charge: Charge | None = None

    def run(self, scope: VariableScope) -> Value:
        values: list[Value] = []
        error: EvaluationError | None = None
        for arg in self.args:
            value = arg.run(scope)
            values.append(value)
            if isinstance(value, EvaluationError):
                error = error or value
                if self.stops and len(values) < len(self.args):
                    return error  # uncharged: the call never had all its arguments
        result = _attempt(self.implementation, scope.meter.account, *values) if error is None else error
        scope.meter.spend(1 if self.charge is None else self.charge(self.overload, values, result))
        return result


@dataclass(slots=True)
class NotStrictlyFalse:
    """What decides whether a loop goes on; an error lets it go on."""

    arg: Step

    def run(self, scope: VariableScope) -> Value:
        value = self.arg.run(scope)
        scope.meter.spend(1)
        return value if value.__class__ is bool else True


@dataclass(slots=True)
class Membership:
    """`in` a list of constants; as good as free."""

    element: Step
    elements: list[Value]

    def run(self, scope: VariableScope) -> Value:
        value = self.element.run(scope)
        return value if isinstance(value, EvaluationError) else contains(scope.meter.account, value, self.elements)


@dataclass(slots=True)
class OptionalAlternative:
    """`or` and `orValue` of an optional: the right side is evaluated only if the left is empty."""

    optional: Step
    otherwise: Step
    unwrap: bool

    def run(self, scope: VariableScope) -> Value:
        value = self.optional.run(scope)
        if isinstance(value, EvaluationError):
            return value
        if not isinstance(value, Optional):
            return NoSuchOverload()
        if not value.present:
            return self.otherwise.run(scope)
        return value.value if self.unwrap else value


_ABSENT = object()


def _initial(value: Value, optional: bool, place: str) -> Value:
    """What is put in a place of a new list, map or object; of an optional its value, or `_ABSENT` where it has none."""
    if not optional or isinstance(value, EvaluationError):
        return value
    if not isinstance(value, Optional):
        return EvaluationError(f"cannot initialize optional {place} from non-optional value {show(value)}")
    return value.value if value.present else _ABSENT


@dataclass(slots=True)
class MakeList:
    """A list whose elements are not all constant."""

    elements: Sequence[Step]
    optional: frozenset[int]

    def run(self, scope: VariableScope) -> Value:
        result = self._elements(scope)
        scope.meter.spend(10)
        return result

    def _elements(self, scope: VariableScope) -> Value:
        result: list[Value] = []
        for position, element in enumerate(self.elements):
            value = _initial(element.run(scope), position in self.optional, "list element")
            if isinstance(value, EvaluationError):
                return value
            if value is not _ABSENT:
                result.append(value)
        return result


@dataclass(slots=True)
class MakeMap:
    """A map whose entries are not all constant; an entry is key, value, and whether the value is optional."""

    entries: Sequence[tuple[Step, Step, bool]]

    def run(self, scope: VariableScope) -> Value:
        result = self._entries(scope)
        scope.meter.spend(30)
        return result

    def _entries(self, scope: VariableScope) -> Value:
        result: dict[Value, Value] = {}
        for key_step, value_step, optional in self.entries:
            key = key_step.run(scope)
            if isinstance(key, EvaluationError):
                return key
            value = _initial(value_step.run(scope), optional, f"entry '{show(key)}'")
            if isinstance(value, EvaluationError):
                return value
            if value is _ABSENT:
                result.pop(map_key(key), None)
                continue
            if key.__class__.__hash__ is None:
                return EvaluationError(f"unsupported key type: {type_name(key)}")
            result[map_key(key)] = value
        return result


@dataclass(slots=True)
class MakeStruct:
    """An object of a type of its own; a field is its name, its value, and whether that is optional."""

    type: Type
    fields: Sequence[tuple[str, Step, bool]]

    def run(self, scope: VariableScope) -> Value:
        result = self._fields(scope)
        scope.meter.spend(40)
        return result

    def _fields(self, scope: VariableScope) -> Value:
        result = Made(self.type)
        for name, step, optional in self.fields:
            value = _initial(step.run(scope), optional, f"entry '{name}'")
            if isinstance(value, EvaluationError):
                return value
            if value is not _ABSENT:
                result[name] = value
        return result


@dataclass(slots=True)
class Append:
    """`accumulator + [element]`, done in place: nobody else can see the accumulator yet."""

    accumulator: Step
    element: Step

    def run(self, scope: VariableScope) -> Value:
        elements, value = self.accumulator.run(scope), self.element.run(scope)
        for part in (elements, value):
            if isinstance(part, EvaluationError):
                scope.meter.spend(1)
                return part
        assert isinstance(elements, list)
        assert isinstance(value, list)
        elements += value
        scope.meter.spend(1)
        return elements


@dataclass(slots=True)
class Insert:
    """An entry more in the accumulator, done in place for the same reason."""

    accumulator: Step
    parts: tuple[Step, ...]

    def run(self, scope: VariableScope) -> Value:
        values: list[Value] = []
        for step in (self.accumulator, *self.parts):
            value = step.run(scope)
            if isinstance(value, EvaluationError):
                return value
            values.append(value)
        scope.meter.spend(1)
        mapping = values[0]
        assert isinstance(mapping, dict)
        for key, value in self._entries(values[1:]):
            if key in mapping:
                return EvaluationError(f"insert failed: key {show(key)} already exists")
            mapping[key] = value
        return mapping

    @staticmethod
    def _entries(parts: list[Value]) -> Iterable[tuple[Value, Value]]:
        if len(parts) == 2:
            return [(map_key(parts[0]), parts[1])]
        assert isinstance(parts[0], dict)
        return list(parts[0].items())


@dataclass(slots=True)
class Loop:
    """A comprehension. The accumulator may become an error; the loop goes on and may recover from it."""

    range: Step
    var: str
    var2: str
    accu: str
    init: Step
    condition: Step
    step: Step
    result: Step

    def run(self, scope: VariableScope) -> Value:
        over = self.range.run(scope)
        if isinstance(over, EvaluationError):
            return over
        rounds = self._rounds(over)
        if isinstance(rounds, EvaluationError):
            return rounds
        outer = VariableScope(scope.meter, {self.accu: _Lazy(self.init, scope)}, scope)
        for values in rounds:
            inner = VariableScope(scope.meter, values, outer)
            if self.condition.run(inner) is False:
                break
            outer.values[self.accu] = self.step.run(inner)
            scope.meter.round()
        return self.result.run(outer)

    def _rounds(self, over: Value) -> Iterable[dict[str, Value]] | EvaluationError:
        var, var2 = self.var, self.var2
        if isinstance(over, list):
            if var2:
                return ({var: index, var2: element} for index, element in enumerate(over))
            return ({var: element} for element in over)
        if over.__class__ in MAPS:
            mapping: Mapping[Value, Value] = over
            if var2:
                return ({var: key, var2: mapping[map_key(key)]} for key in keys(mapping))
            return ({var: key} for key in keys(mapping))
        name = "types." + _GO_TYPES.get(type_name(over), type_name(over))
        if var2:
            return EvaluationError(f"unsupported comprehension range type: {name}")
        return EvaluationError(f"got '{name}', expected iterable type")
