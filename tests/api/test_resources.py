"""The registry, and what each kind says about itself."""

from __future__ import annotations

import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

from dray.api import kinds, schema
from dray.api.constraints import function
from dray.api.gates import GATES
from dray.api.kind import Resource
from dray.api.places import steps
from dray.api.resources import BY_KIND, BY_NAME, BY_TYPE, RESOURCES, file_of

every_kind = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.qualified)


@every_kind
def test_a_kind_is_found_in_every_way(resource: Resource) -> None:
    assert BY_TYPE[resource.type] is resource
    assert BY_NAME[resource.group, resource.plural] is resource
    assert BY_KIND[resource.group, resource.kind] is resource


@every_kind
def test_a_kind_is_described_in_the_file_of_its_name(resource: Resource) -> None:
    module = import_module(f"dray.api.kinds.{file_of(resource.kind)}")
    assert resource in (module.KIND, getattr(module, "ALIAS", None))


def test_each_file_describes_a_kind() -> None:
    assert {module.name for module in pkgutil.iter_modules(kinds.__path__)} == {file_of(r.kind) for r in RESOURCES}


def test_what_is_no_kind_is_not_found() -> None:
    assert BY_TYPE.get(str) is None  # type: ignore[call-overload]  # no type of an object
    assert ("", "Pods") not in BY_KIND
    assert ("apps", "Pod") not in BY_KIND
    assert ("apps", "pods") not in BY_NAME
    assert len(BY_TYPE) == len(BY_NAME) == len(RESOURCES)


def test_a_client_loads_the_kinds_that_it_asks_for() -> None:
    program = (
        "import sys\n"
        "from dray.api.resources import BY_KIND\n"
        "from dray.api.types.core import Pod\n"
        "assert BY_KIND['', 'Pod'].type is Pod\n"
        "assert not {'dray.api.kinds.job', 'dray.api.types.batch', 'dray.api.validation'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@every_kind
def test_the_rules_of_a_kind_are_functions(resource: Resource) -> None:
    rules = resource.rules
    named = [(rules.create, 2), (rules.update or "", 3), *((name, 3) for name in rules.subresources.values())]
    for name, parameters in named:
        if name:
            assert len(inspect.signature(function(name)).parameters) == parameters, name
    assert rules.subresources.keys() <= set(resource.subresources)
    assert {*resource.on_update} - {""} <= {*resource.subresources, "finalize"}


@every_kind
def test_places_are_in_the_schema(resource: Resource) -> None:
    for path in (*resource.defaults, *(place for places in resource.guards.values() for place in places)):
        message = resource.message()
        if path.startswith("status.") and "status" not in schema.message(message).fields:
            continue  # claims and their templates share what is guarded
        for name, behind in steps(path).way:
            field = schema.message(message).fields[name]
            assert {"[]": field.is_list, "{}": field.is_map, "": not (field.is_list or field.is_map)}[behind], path
            message = field.reference
        assert schema.message(message).fields.keys() >= set(steps(path).last), path
    assert resource.guards.keys() <= {gate.name for gate in GATES}
