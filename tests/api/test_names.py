"""Names: what passes, and that the complaint explains itself."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from dray.api import names


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.label, ["a", "a-1", "0", "x" * 63], ["", "A", "a.b", "-a", "a-", "x" * 64, "ä", "a\n"]),
        (names.subdomain, ["a.b", "x" * 253], ["", "a..b", ".a", "a_b", "x" * 254]),
        (names.caseless_subdomain, ["A.b"], ["A b", ""]),
        (names.label_1035, ["a-1"], ["1a", ""]),
        (names.c_identifier, ["_a", "A1"], ["1a", "a-b", ""]),
        (names.label_value, ["", "a", "A_b.c-d"], ["-a", "a b", "x" * 64]),
        (names.qualified_name, ["a", "A_b", "x.io/a"], ["", "/a", "x.io/", "a/b/c", "X.io/a", "a b"]),
        (names.config_key, ["a.b", "..data"[2:], "A_-"], ["", ".", "..", "..a", "a/b"]),
        (names.env_name, ["a", "A B", "1"], ["", "a=b", "ä"]),
        (names.port_name, ["http", "a-1"], ["", "1", "a--b", "-a", "toolongportname1", "A"]),
        (names.path_segment, ["a:b", "ä"], [".", "..", "a/b", "a%b"]),
    ],
)
def test_names(check: names.NameCheck, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if check(text)] == []
    assert [text for text in bad if not check(text)] == []


@pytest.mark.parametrize("check", [names.subdomain, names.env_name])
def test_a_text_of_a_megabyte_is_judged_at_once(check: names.NameCheck) -> None:
    text = "a." * 500_000 + "\n"
    began = time.thread_time()
    assert check(text)
    assert time.thread_time() - began < 0.02  # matching it took 0.1 s


def test_what_is_much_too_long_is_told_that_alone() -> None:
    assert names.subdomain("A" * 5000) == ["must be no more than 253 characters"]
    assert len(names.subdomain("A" * 300)) == 2


def test_a_missing_name_part_breaks_two_rules() -> None:
    complaints = names.qualified_name("")
    assert [text.partition("(")[0].strip() for text in complaints] == [
        "name part must be non-empty",
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character",
    ]


def test_a_prefix_may_end_with_a_dash() -> None:
    assert names.prefixed(names.label, "web-") == []
    assert names.prefixed(names.label, "Web-") != []


@pytest.mark.parametrize(("number", "fine"), [(0, False), (1, True), (65535, True), (65536, False)])
def test_ports(number: int, fine: bool) -> None:
    assert (names.port_number(number) == []) is fine


def test_texts_that_are_far_too_long_are_not_kept() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(200):
            assert names.label(f"{number}-" + "a" * 100_000)
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()
