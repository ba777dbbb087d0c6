"""The tool that breaks the program on purpose finds what it is told to change, and says so when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.mutants.run import ROOT, Mutant, MutantError, Tree, read

SOURCE = """
class A:
    def f(self):
        return 1

    async def g(self):
        return 1


def f():
    return 1
"""


def mutant(where: str, old: str = "return 1", new: str = "return 2") -> Mutant:
    return Mutant("m", f"dray.sample:{where}", old, new, "tests/test_sample.py")


@pytest.mark.parametrize(("where", "line"), [("A.f", 4), ("A.g", 7), ("f", 11)])
def test_the_text_is_changed_in_its_function_alone(where: str, line: int) -> None:
    changed = mutant(where).applied(SOURCE).splitlines()
    assert [number for number, text in enumerate(changed, 1) if "return 2" in text] == [line]
    assert len(changed) == len(SOURCE.splitlines())


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        (mutant("A.h"), r"m: there is no A\.h in src/dray/sample\.py"),
        (mutant("A.f", "return 3"), "m: 'return 3' is 0 times in dray.sample:A.f, expected once"),
        (mutant("A"), "m: 'return 1' is 2 times"),
        (mutant("f", new="return ("), "m: the change is no Python"),
    ],
)
def test_what_cannot_be_changed_is_named(changed: Mutant, complaint: str) -> None:
    with pytest.raises(MutantError, match=complaint):
        changed.applied(SOURCE)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = 'a'\nwhere = 'w'\nold = 'o'\nnew = 'n'", "a: expected either a test or the reason"),
        ("name = 'a'\nwhere = 'w'\nold = 'o'\nnew = 'n'\ntest = 't'\nequivalent = 'e'", "a: expected either"),
    ],
)
def test_a_mutant_has_a_test_or_a_reason(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "x.toml").write_text(f"[[mutants]]\n{text}\n")
    with pytest.raises(MutantError, match=complaint):
        read(place=tmp_path)


def test_a_mutant_is_killed_by_a_test_that_fails_and_the_tree_is_as_before(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "src" / "dray").mkdir(parents=True)
    (source / "tests").mkdir()
    (source / "src" / "dray" / "sample.py").write_text(SOURCE)
    (source / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (source / "tests" / "test_sample.py").write_text(
        "import pathlib\nnames = {}\nexec(pathlib.Path('src/dray/sample.py').read_text(), names)\n"
        "def test():\n    assert names['f']() == 1\n"
    )
    tree = Tree(tmp_path / "copy", source)
    assert tree.verdict(mutant("f")) == "killed"
    assert tree.verdict(mutant("A.f")) == "survived"
    assert tree.verdict(mutant("f", "return 9")).startswith("error: m: 'return 9' is 0 times")
    missing = Mutant("m", "dray.sample:f", "return 1", "return 2", "tests/test_missing.py")
    assert tree.verdict(missing).startswith("error: tests/test_missing.py cannot be run")
    assert (tmp_path / "copy" / "src" / "dray" / "sample.py").read_text() == SOURCE


def test_every_listed_change_can_be_made_to_the_program_as_it_is() -> None:
    """A text that moved is found here, and not only when somebody runs all of them."""
    for one in read():
        source = (ROOT / one.file).read_text()
        assert one.applied(source) != source, one.name
        assert all((ROOT / test.partition("::")[0]).exists() for test in one.test.split()), one.name
