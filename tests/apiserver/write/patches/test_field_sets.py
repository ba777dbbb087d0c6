"""Field sets behave as sets of paths."""

from hypothesis import given
from hypothesis import strategies as st

from dray.apiserver.write.patches.field_sets import (
    MEMBER,
    below,
    difference,
    intersection,
    is_member,
    node,
    paths,
    union,
)

ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"'])


def from_paths(found):
    """A set built path by path, the slow and obvious way."""
    result = {}
    for path in found:
        here = result
        for element in path[:-1]:
            child = here.get(element)
            if child == {}:
                child = {MEMBER: {}}
            here[element] = child = {} if child is None else child
            here = child
        last = here.get(path[-1])
        here[path[-1]] = {} if not last else {MEMBER: {}, **last}
    return result


def to_paths(fields, prefix=()):
    for key, child in fields.items():
        if is_member(child):
            yield (*prefix, key)
        yield from to_paths(below(child), (*prefix, key))


PATHS = st.sets(st.lists(ELEMENTS, min_size=1, max_size=3).map(tuple), max_size=6)


@given(PATHS)
def test_a_set_holds_exactly_its_paths(found):
    assert set(to_paths(from_paths(found))) == found


@given(PATHS, PATHS)
def test_operations_are_those_of_sets(left, right):
    one, two = from_paths(left), from_paths(right)
    before = repr((one, two))
    assert set(to_paths(union(one, two))) == left | right
    assert set(to_paths(difference(one, two))) == left - right
    assert set(to_paths(intersection(one, two))) == left & right
    assert repr((one, two)) == before, "an operand was changed"


def test_nothing_is_left_of_a_node_without_members():
    assert node(False, {}) is None
    assert difference({"f:a": {"f:b": {}}}, {"f:a": {"f:b": {}}}) == {}


def test_paths_read_as_kubernetes_writes_them():
    fields = {"f:spec": {"f:ports": {'k:{"protocol":"TCP","containerPort":80}': {}}, "f:finalizers": {'v:"x/y"': {}}}}
    assert list(paths(fields)) == ['.spec.finalizers[="x/y"]', '.spec.ports[containerPort=80,protocol="TCP"]']
