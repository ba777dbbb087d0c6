"""Generated code: the shapes that have shortcuts, and what only looks like them."""

from __future__ import annotations

import pytest

from dray.cel import compile_selector
from tests.cel.asking import DOMAIN, ask, device

GPU = device(
    {"model": {"string": "a100"}, "index": {"int": 3}, "healthy": {"bool": True}, "version": {"version": "2.1.0"}},
    {"memory": {"value": "40Gi"}},
)
OF = f'device.attributes["{DOMAIN}"]'
NO_OVERLOAD = "no such overload"
MEMORY = f'device.capacity["{DOMAIN}"].memory'


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f'{MEMORY}.compareTo(quantity("40960Mi")) == 0', True),
        (f'{MEMORY}.compareTo(quantity("1Ti")) >= 0', False),
        (f'{MEMORY}.isGreaterThan(quantity("32Gi"))', True),
        (f'{OF}.version.isGreaterThan(semver("2.0.0"))', True),
        (f'{OF}.version.isLessThan(semver("2.0.0"))', False),
        (f'{OF}.version.compareTo(semver("2.1.0")) == 0', True),
        (
            f'{OF}.version.isGreaterThan(quantity("1"))',
            f"{NO_OVERLOAD}: isGreaterThan(kubernetes.Semver, kubernetes.Quantity)",
        ),
        (f'{OF}.model.compareTo(quantity("1")) == 0', f"{NO_OVERLOAD}: compareTo(string, kubernetes.Quantity)"),
        (f"{OF}.index + 1 == 4", True),
        (f"{OF}.index == 3.0", True),
        (f"{OF}.healthy == 1", False),
        (f"{OF}.index == true", False),
        (f"{OF}.index in [1, 2, 3]", True),
        (f"{OF}.healthy in [1]", False),
        (f'{OF}.model in ["a100", "h100"]', True),
        (f'{OF}.index in ["3"]', False),
        (f'{OF}.exists(name, name == "model")', True),
        (f'{OF}.exists(name, value, name == "model" && value == "a100")', True),
        (f"device.attributes.all(domain, domain == '{DOMAIN}')", True),
        ("([1] + dyn([true])).exists(x, x == 1 && type(x) == bool)", False),
        ("{true: 'a'}.exists(k, k == true)", True),
        ("cel.bind(x, [1, 2].map(y, y * 2), x == [2, 4])", True),
    ],
)
def test_shortcuts_answer_as_the_complete_way_does(expression: str, answer: bool | str) -> None:
    assert ask(expression, GPU) == answer


def test_a_cheap_expression_gets_a_function_and_a_dear_one_none() -> None:
    assert compile_selector(f'{OF}.model == "a100"')._fast is not None
    assert compile_selector("lists.range(device.driver.size()).all(x, x >= 0)")._fast is None
