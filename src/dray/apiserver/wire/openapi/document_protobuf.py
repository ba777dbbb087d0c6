"""Encode an OpenAPI v2 document in protobuf, for clients that read nothing else.

The messages are those of openapi.v2 (gnostic); the table below has the field numbers used here. JSON objects become
lists of named values, and values without fixed structure become YAML text, which JSON is a subset of.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

Json: TypeAlias = dict[str, Any]

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"str": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL}

_PARAMETER = {"required": ("bool", 1), "in": ("str", 2), "description": ("str", 3), "name": ("str", 4)}
_MESSAGES: dict[str, dict[str, tuple[str, int]]] = {
    "Any": {"yaml": ("str", 2)},
    "NamedAny": {"name": ("str", 1), "value": ("Any", 2)},
    "NamedSchema": {"name": ("str", 1), "value": ("Schema", 2)},
    "NamedPathItem": {"name": ("str", 1), "value": ("PathItem", 2)},
    "NamedResponseValue": {"name": ("str", 1), "value": ("ResponseValue", 2)},
    "Document": {"swagger": ("str", 1), "info": ("Info", 2), "paths": ("Paths", 8), "definitions": ("Definitions", 9)},
    "Info": {"title": ("str", 1), "version": ("str", 2)},
    "Paths": {"path": ("[NamedPathItem", 2)},
    "Definitions": {"additional_properties": ("[NamedSchema", 1)},
    "Properties": {"additional_properties": ("[NamedSchema", 1)},
    "PathItem": {
        "get": ("Operation", 2),
        "put": ("Operation", 3),
        "post": ("Operation", 4),
        "delete": ("Operation", 5),
        "patch": ("Operation", 8),
        "parameters": ("[ParametersItem", 9),
    },
    "Operation": {
        "tags": ("[str", 1),
        "operation_id": ("str", 5),
        "produces": ("[str", 6),
        "consumes": ("[str", 7),
        "parameters": ("[ParametersItem", 8),
        "responses": ("Responses", 9),
        "schemes": ("[str", 10),
        "vendor_extension": ("[NamedAny", 13),
    },
    "ParametersItem": {"parameter": ("Parameter", 1)},
    "Parameter": {"body_parameter": ("BodyParameter", 1), "non_body_parameter": ("NonBodyParameter", 2)},
    "BodyParameter": {"name": ("str", 2), "in": ("str", 3), "required": ("bool", 4), "schema": ("Schema", 5)},
    "NonBodyParameter": {
        "query_parameter_sub_schema": ("QueryParameterSubSchema", 3),
        "path_parameter_sub_schema": ("PathParameterSubSchema", 4),
    },
    "QueryParameterSubSchema": {**_PARAMETER, "type": ("str", 6), "unique_items": ("bool", 20)},
    "PathParameterSubSchema": {**_PARAMETER, "type": ("str", 5), "unique_items": ("bool", 19)},
    "Responses": {"response_code": ("[NamedResponseValue", 1)},
    "ResponseValue": {"response": ("Response", 1)},
    "Response": {"description": ("str", 1), "schema": ("SchemaItem", 2)},
    "SchemaItem": {"schema": ("Schema", 1)},
    "Schema": {
        "_ref": ("str", 1),
        "format": ("str", 2),
        "description": ("str", 4),
        "default": ("Any", 5),
        "required": ("[str", 19),
        "additional_properties": ("AdditionalPropertiesItem", 21),
        "type": ("TypeItem", 22),
        "items": ("ItemsItem", 23),
        "properties": ("Properties", 25),
        "vendor_extension": ("[NamedAny", 31),
    },
    "AdditionalPropertiesItem": {"schema": ("Schema", 1)},
    "TypeItem": {"value": ("[str", 1)},
    "ItemsItem": {"schema": ("[Schema", 1)},
}


def encode_document(document: Json) -> bytes:
    """Return the document as an encoded openapi.v2 Document."""
    target: Any = document_class()()
    target.swagger = document["swagger"]
    target.info.title, target.info.version = document["info"]["title"], document["info"]["version"]
    for name, item in document["paths"].items():
        _path(target.paths.path.add(name=name).value, item)
    for name, schema in document["definitions"].items():
        _schema(target.definitions.additional_properties.add(name=name).value, schema)
    return bytes(target.SerializeToString())


@cache
def document_class() -> type[Message]:
    """Return the class of the Document message."""
    file = descriptor_pb2.FileDescriptorProto(name="openapi.proto", package="openapi.v2", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (type_, number) in fields.items():
            repeated = type_.startswith("[")
            bare = type_.removeprefix("[")
            entry = message.field.add(name=field, number=number)
            entry.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
            if bare in _SCALARS:
                entry.type = _SCALARS[bare]
            else:
                entry.type, entry.type_name = _Field.TYPE_MESSAGE, f".openapi.v2.{bare}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClassesForFiles(["openapi.proto"], pool)["openapi.v2.Document"]


def _path(target: Any, item: Json) -> None:
    """Fill a PathItem message from a path's operations and parameters in JSON form."""
    for name, value in item.items():
        if name == "parameters":
            for parameter in value:
                _parameter(target.parameters.add().parameter, parameter)
        else:
            _operation(getattr(target, name), value)


def _operation(target: Any, operation: Json) -> None:
    """Fill an Operation message from its JSON form."""
    target.operation_id = operation["operationId"]
    for name in ("tags", "produces", "consumes", "schemes"):
        getattr(target, name).extend(operation.get(name, ()))
    for parameter in operation["parameters"]:
        _parameter(target.parameters.add().parameter, parameter)
    for code, response in operation["responses"].items():
        answer = target.responses.response_code.add(name=code).value.response
        answer.description = response["description"]
        if "schema" in response:
            _schema(answer.schema.schema, response["schema"])
    _extensions(target, operation)


def _parameter(target: Any, parameter: Json) -> None:
    """Fill a Parameter message from its JSON form."""
    place = parameter["in"]
    if place == "body":
        body = target.body_parameter
        _schema(body.schema, parameter["schema"])
    else:
        body = getattr(target.non_body_parameter, f"{place}_parameter_sub_schema")
        body.type, body.unique_items = parameter["type"], parameter["uniqueItems"]
    body.name, body.required = parameter["name"], parameter.get("required", False)
    setattr(body, "in", place)


def _schema(target: Any, schema: Json) -> None:
    """Fill a Schema message from its JSON form."""
    target.SetInParent()
    for name in ("format", "description"):
        if name in schema:
            setattr(target, name, schema[name])
    if "$ref" in schema:
        setattr(target, "_ref", schema["$ref"])  # noqa: B010  # an attribute of this name would be mangled to a private one
    if "type" in schema:
        target.type.value.append(schema["type"])
    if "default" in schema:
        target.default.yaml = _yaml(schema["default"])
    target.required.extend(schema.get("required", ()))
    if "items" in schema:
        _schema(target.items.schema.add(), schema["items"])
    if "additionalProperties" in schema:
        _schema(target.additional_properties.schema, schema["additionalProperties"])
    for name, value in schema.get("properties", {}).items():
        _schema(target.properties.additional_properties.add(name=name).value, value)
    _extensions(target, schema)


def _extensions(target: Any, values: Json) -> None:
    """Add all members of `values` that begin with `x-` to a message as vendor extensions."""
    for name, value in values.items():
        if name.startswith("x-"):
            target.vendor_extension.add(name=name).value.yaml = _yaml(value)


def _yaml(value: Any) -> str:
    """Return a value as YAML text."""
    return msgspec.json.encode(value).decode() + "\n"
