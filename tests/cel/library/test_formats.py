"""Named formats."""

from __future__ import annotations

import pytest

from tests.cel.asking import ask


@pytest.mark.parametrize(
    "fact",
    [
        'format.dns1123Label().validate("my-label") == optional.none()',
        'format.dns1123Label().validate("My Label").hasValue()',
        'format.named("uuid").hasValue() && !format.named("nope").hasValue()',
    ],
)
def test_what_holds(fact: str) -> None:
    assert ask(fact) is True


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("dns1123Label", "a-1", "-a"),
        ("dns1123Subdomain", "a.b-c", "a..b"),
        ("dns1035Label", "a1", "1a"),
        ("qualifiedName", "example.com/Name_1", "example.com/"),
        ("dns1123LabelPrefix", "a-", "-a"),
        ("dns1123SubdomainPrefix", "a.b-", ".a"),
        ("dns1035LabelPrefix", "a-", "1"),
        ("labelValue", "A_1.b", "-a"),
        ("uri", "https://example.com/a", "a b"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123e4567"),
        ("byte", "YWJj", "%%%"),
        ("date", "2024-02-29", "2023-02-29"),
        ("datetime", "2024-02-29T10:00:00Z", "2024-02-29"),
    ],
)
def test_each_format_tells_good_from_bad(name: str, good: str, bad: str) -> None:
    assert ask(f"!format.{name}().validate('{good}').hasValue()") is True
    assert ask(f"format.{name}().validate('{bad}').value().size() > 0") is True
    assert ask(f"format.named('{name}').value() == format.{name}()") is True


def test_what_is_wrong_is_said() -> None:
    assert ask("format.dns1123Label().validate('A').value()[0].startsWith('a lowercase RFC 1123 label must')") is True
