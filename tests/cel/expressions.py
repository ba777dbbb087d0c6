"""Random well-typed selectors, with everything that can go wrong at run time left in."""

from hypothesis import strategies as st

DOMAIN = "gpu.example.com"
DEVICE = {
    "driver": DOMAIN,
    "attributes": {DOMAIN: {"model": "a100", "index": 3, "healthy": True}},
    "capacity": {},
    "allowMultipleAllocations": False,
}


def attribute(name: str) -> str:
    return f'device.attributes["{DOMAIN}"].{name}'


def _one_of(*choices: object) -> st.SearchStrategy[str]:
    return st.one_of(*(st.just(choice) if isinstance(choice, str) else choice for choice in choices))  # type: ignore[arg-type,misc]  # mixed on purpose


def _form(template: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda filled: template.format(*filled))


_numbers = st.sampled_from([0, 1, 2, 3, 7, -1, 40, 9223372036854775807]).map(str)
_doubles = st.sampled_from(["0.0", "1.0", "2.5", "-3.25", "1e300"])
_texts = st.sampled_from(['"a100"', '""', '"gpu"', '"A"', '"äöü"', '"."', f'"{DOMAIN}"'])

_ints = st.deferred(
    lambda: _one_of(
        _numbers,
        _numbers,
        "size([1, 2, 3])",
        "n",
        _form("({} + {})", _ints, _ints),
        _form("({} - {})", _ints, _ints),
        _form("({} * {})", _ints, _ints),
        _form("({} / {})", _ints, _ints),
        _form("({} % {})", _ints, _ints),
        _form("(-{})", _ints),
        _form("{}.size()", _strings),
        _form("size({})", _lists),
        _form("({} ? {} : {})", _bools, _ints, _ints),
        _form("{}[{}]", _lists, _numbers),
        "int(string(n))",
    )
)
_unknowns = _one_of(*map(attribute, ("model", "index", "healthy", "nope")))
_strings = st.deferred(
    lambda: _one_of(
        _texts,
        _texts,
        "device.driver",
        _form("({} + {})", _strings, _strings),
        _form("{}.substring({})", _strings, _numbers),
        _form("{}.lowerAscii()", _strings),
        _form("{}.replace({}, {})", _strings, _texts, _texts),
        _form("string({})", _ints),
        _form("({} ? {} : {})", _bools, _strings, _strings),
    )
)
_lists = st.deferred(
    lambda: _one_of(
        _form("[{}, {}, {}]", _numbers, _numbers, _numbers),
        _form("[{}]", _ints),
        _form("({} + {})", _lists, _lists),
        _form("{}.map(n, {})", _lists, _ints),
        _form("{}.filter(n, {})", _lists, _bools),
    )
)
_bools = st.deferred(
    lambda: _one_of(
        "true",
        "false",
        "device.allowMultipleAllocations",
        _form("({} && {})", _bools, _bools),
        _form("({} || {})", _bools, _bools),
        _form("(!{})", _bools),
        _form("({} ? {} : {})", _bools, _bools, _bools),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]).flatmap(
            lambda op: st.one_of(
                _form(f"({{}} {op} {{}})", _ints, _ints),
                _form(f"({{}} {op} {{}})", _strings, _strings),
                _form(f"({{}} {op} {{}})", _doubles, _doubles),
                _form(f"({{}} {op} {{}})", _ints, _doubles) if op not in ("==", "!=") else _bools,
                _form(f"({{}} {op} {{}})", _unknowns, _texts),
                _form(f"({{}} {op} {{}})", _unknowns, _numbers),
            )
        ),
        _form("({} in {})", _ints, _lists),
        _form("({} in {})", _unknowns, _lists),
        f'("model" in device.attributes["{DOMAIN}"])',
        f"has({attribute('nope')})",
        f"has({attribute('model')})",
        _form("({} && {})", _unknowns, _bools),
        _form("{}.startsWith({})", _strings, _texts),
        _form("{}.contains({})", _unknowns, _texts),
        _form("{}.matches({})", _strings, _texts),
        _form("{}.exists(n, {})", _lists, _bools),
        _form("{}.all(n, {})", _lists, _bools),
        _form("{}.exists_one(n, {})", _lists, _bools),
        _form("cel.bind(n, {}, {})", _ints, _bools),
        _form(f'(device.attributes["{DOMAIN}"].?nope.orValue({{}}) == {{}})', _ints, _ints),
        _form(f'(device.attributes["{DOMAIN}"].?index.orValue({{}}) == {{}})', _ints, _ints),
    )
)

selectors = _form("[3].exists(n, {})", _bools)
"""Bools with a variable `n` in sight."""
