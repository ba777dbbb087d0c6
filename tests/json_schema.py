"""A validator for the part of JSON Schema that msgspec writes: enough to tell whether an answer is as its schema says."""

from __future__ import annotations

from typing import Any

Json = Any
TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def problems(value: Json, schema: dict[str, Any], root: dict[str, Any], where: str = "$") -> list[str]:
    """Where a value differs from a schema; a field that the schema does not know is a difference, too."""
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, where)
    if "anyOf" in schema:
        tried = [problems(value, one, root, where) for one in schema["anyOf"]]
        return [] if [] in tried else min(tried, key=len)
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where}: {value!r} is none of {schema['enum']}"]
    if "type" in schema and (not isinstance(value, TYPES[schema["type"]]) or (value is True or value is False) != (schema["type"] == "boolean")):  # fmt: skip
        return [f"{where}: {value!r} is no {schema['type']}"]
    if isinstance(value, dict) and "properties" in schema:
        missing = [f"{where}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        unknown = [f"{where}: {name} is unknown" for name in value if name not in schema["properties"]]
        known = (problems(of, schema["properties"][name], root, f"{where}.{name}") for name, of in value.items() if name in schema["properties"])  # fmt: skip
        return missing + unknown + [one for some in known for one in some]
    if isinstance(value, list):
        prefix, rest = schema.get("prefixItems", []), schema.get("items") or {}
        schemas = [*prefix, *[rest] * max(0, len(value) - len(prefix))]
        return [
            one for number, of in enumerate(value) for one in problems(of, schemas[number], root, f"{where}[{number}]")
        ]
    return []
