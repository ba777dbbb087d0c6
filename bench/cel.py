"""What a selector costs to compile and to ask, beside cel-expr-python (the C++ implementation) in the same run.

The other implementation gets the device as a map of maps; it has no quantities and versions, hence the gaps.
"""

from __future__ import annotations

import gc
import timeit
from collections.abc import Callable

from cel_expr_python import cel

from dray.api.types.resource import DeviceAttribute, DeviceCapacity
from dray.cel import DeviceView, EvaluationError, Selector

DOMAIN = "gpu.example.com"
ATTRIBUTES = {
    "model": DeviceAttribute(string="a100"),
    "index": DeviceAttribute(int=3),
    "healthy": DeviceAttribute(bool=True),
    "driverVersion": DeviceAttribute(version="2.1.0"),
}
CAPACITY = {"memory": DeviceCapacity(value="40Gi")}
PLAIN = {
    "driver": DOMAIN,
    "attributes": {DOMAIN: {"model": "a100", "index": 3, "healthy": True}},
    "allowMultipleAllocations": False,
}

ATTRIBUTE = f'device.attributes["{DOMAIN}"]'
MEMORY = f'device.capacity["{DOMAIN}"].memory'
SELECTORS = {
    "driver": f'device.driver == "{DOMAIN}"',
    "driver and attribute": f'device.driver == "{DOMAIN}" && {ATTRIBUTE}.model == "a100"',
    "order of an integer": f"{ATTRIBUTE}.index > 2",
    "attribute and quantity": f'{ATTRIBUTE}.model == "a100" && {MEMORY}.compareTo(quantity("20Gi")) >= 0',
    "version": f'{ATTRIBUTE}.driverVersion.isGreaterThan(semver("2.0.0"))',
    "regular expression": f'{ATTRIBUTE}.model.matches("^a[0-9]+$")',
    "one of many": f"{ATTRIBUTE}.model in {['t4', 'v100', 'h100', 'a100']}",
    "loop over attributes": f'{ATTRIBUTE}.exists(name, name == "model")',
    "missing attribute": f"{ATTRIBUTE}.nope == 1",
    "missing attribute, absorbed": f"{ATTRIBUTE}.nope == 1 || {ATTRIBUTE}.index == 3",
}


LONGEST = {
    "conjunctions": "&&".join(["1==1"] * 1700),
    "sums of lists": "&&".join(["+".join(["[]"] * 200) + "==[]"] * 16),
    "deep lists": "size([" + ",".join(["[" * 200 + "]" * 200] * 25) + "])==1",
    "chains of macros": "&&".join(["[[]]" + ".map(x,[x])" * 200 + "==[]"] * 4),
    "macros that copy": "&&".join(["optional.of(1)" + ".optMap(x,x)" * 9 + ".hasValue()"] * 70),
}
TWENTY = list(range(20))
COSTLY = {
    "sums of numbers": f"{TWENTY}.all(a, {TWENTY}.all(b, {TWENTY}.all(c, a + b + c >= 0)))",
    "quantities": f"{TWENTY}.all(a, {TWENTY}.all(b, {TWENTY}.all(c, quantity('1').isInteger())))",
    "networks": f"{TWENTY}.all(a, {TWENTY}.all(b, cidr('10.0.0.0/8').containsIP('10.1.2.3')))",
}


def main() -> None:
    device = DeviceView(DOMAIN, ATTRIBUTES, CAPACITY)
    other = cel.NewEnv(variables={"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)})
    print(f"{'selector':30} {'µs':>8} {'C++ µs':>8} {'compile ms':>11} {'C++ ms':>8}")
    for name, expression in SELECTORS.items():
        ours = _ask(Selector(expression), device), _seconds(lambda: Selector(expression), 5)  # noqa: B023 (called at once)
        theirs = _theirs(other, expression)
        print(
            f"{name:30} {ours[0] * 1e6:8.2f} {_shown(theirs and theirs[0], 1e6)} {ours[1] * 1e3:11.2f} "
            f"{_shown(theirs and theirs[1], 1e3)}"
        )
    for name, expression in LONGEST.items():
        seconds = timeit.timeit(lambda: Selector(expression), number=1)  # noqa: B023 (called at once)
        print(f"10 KiB made to be slow, {name}: compiled or refused in {seconds * 1e3:.0f} ms")
    for name, expression in COSTLY.items():
        selector = Selector(expression)
        seconds = _seconds(lambda: selector.evaluate(device), 1)  # noqa: B023 (called at once)
        print(f"a unit of cost, {name}: {seconds / selector.evaluate(device).cost * 1e6:.2f} µs")
    print(f"a device made ready: {_seconds(lambda: DeviceView(DOMAIN, ATTRIBUTES, CAPACITY), 2000) * 1e6:.1f} µs")


def _ask(selector: Selector, device: DeviceView) -> float:
    def ask() -> None:
        try:
            selector.matches(device)
        except EvaluationError:
            return

    return _seconds(ask, 5000)


def _theirs(environment: cel.Env, expression: str) -> tuple[float, float] | None:
    try:
        compiled = environment.compile(expression)
    except Exception:  # whatever it raises: it does not know a function
        return None
    seconds = _seconds(lambda: compiled.eval(data={"device": PLAIN}), 500)
    return seconds, _seconds(lambda: environment.compile(expression), 20)


def _seconds(call: Callable[[], object], times: int) -> float:
    gc.collect()
    return min(timeit.repeat(call, number=times, repeat=5)) / times


def _shown(seconds: float | None, unit: float) -> str:
    return f"{'-':>8}" if seconds is None else f"{seconds * unit:8.2f}"
