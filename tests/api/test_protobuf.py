"""Protobuf bodies: bytes as Go writes and reads them, round trips of every kind, and garbage."""

import contextlib
import struct
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dray.api import protobuf, schema
from dray.api.errors import BadRequest, NotAcceptable, TooLarge, UnsupportedMediaType
from dray.api.protobuf_types import META

SLICE = "resource.k8s.io/v1"


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    """A field on the wire: integers as varints, the rest as bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version, kind, raw):
    meta = field(1, api_version) + field(2, kind)
    return b"k8s\0" + field(1, meta) + field(2, raw) + field(3, "") + field(4, "")


def test_a_slice_as_a_go_driver_posts_it():
    """Zeros of plain fields are on the wire and not in the tree; zeros of pointers are in both."""
    metadata = field(1, "slice") + field(2, "") + field(5, "") + field(7, 0) + field(8, b"")
    version = field(1, "model") + field(2, field(4, "a100"))
    missing = field(1, "ok") + field(2, field(3, 0))
    capacity = field(1, "memory") + field(2, field(1, field(1, "40Gi")))
    device = field(1, "gpu-0") + field(2, version) + field(2, missing) + field(3, capacity)
    pool = field(1, "p") + field(2, 1) + field(3, 1)
    names = {name: f.number for name, f in schema.message("io.k8s.api.resource.v1.ResourceSliceSpec").fields.items()}
    assert names | {"driver": 1, "pool": 2, "nodeName": 3, "devices": 6} == names
    attribute = schema.message("io.k8s.api.resource.v1.DeviceAttribute").fields
    assert (attribute["bool"].number, attribute["string"].number) == (3, 4)
    spec = field(1, "gpu.example.com") + field(2, pool) + field(3, "n1") + field(6, device)
    assert protobuf.decode(body(SLICE, "ResourceSlice", field(1, metadata) + field(2, spec))) == {
        "apiVersion": SLICE,
        "kind": "ResourceSlice",
        "metadata": {"name": "slice"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "n1",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": "gpu-0",
                    "attributes": {"model": {"string": "a100"}, "ok": {"bool": False}},
                    "capacity": {"memory": {"value": "40Gi"}},
                }
            ],
        },
    }


def test_delete_options_come_under_any_group():
    options = field(1, 0) + field(2, field(1, "the-uid")) + field(4, "Background") + field(5, "All")
    assert protobuf.decode(body(SLICE, "DeleteOptions", options)) == {
        "apiVersion": SLICE,
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "the-uid"},
        "propagationPolicy": "Background",
        "dryRun": ["All"],
    }


def test_inlined_messages_are_unnested():
    """JSON has a volume's source beside its name; protobuf nests it."""
    volume = field(1, "v") + field(2, field(1, field(1, "/x")))
    tree = protobuf.decode(body("v1", "Pod", field(2, field(1, volume))))
    assert tree["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_a_kind_that_the_body_does_not_name_is_taken_from_the_request():
    raw = b"k8s\0" + field(2, field(1, field(1, "x")))
    assert protobuf.decode(raw, "v1", "Pod") == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}


def test_times_quantities_and_numbers_or_texts():
    started = field(1, 1_800_000_000) + field(2, 123_456_789)
    status = field(7, started)
    tree = protobuf.decode(body("v1", "Pod", field(3, status)))
    assert tree["status"] == {"startTime": "2027-01-15T08:00:00Z"}
    lease = field(2, field(4, started))
    assert protobuf.decode(body("coordination.k8s.io/v1", "Lease", lease))["spec"] == {
        "renewTime": "2027-01-15T08:00:00.123456Z"
    }
    port = field(3, 80) + field(4, field(1, 1) + field(2, 0) + field(3, "http"))
    service = protobuf.decode(body("v1", "Service", field(2, field(1, port))))
    assert service["spec"]["ports"] == [{"port": 80, "targetPort": "http"}]
    quota = field(2, field(1, field(1, "pods") + field(2, field(1, "0"))))
    assert protobuf.decode(body("v1", "ResourceQuota", quota))["spec"] == {"hard": {"pods": "0"}}


def test_numbers_may_be_packed_and_unknown_fields_are_skipped():
    packed = field(4, varint(1) + varint(2))
    plain = field(4, 3)
    groups = schema.message("io.k8s.api.core.v1.PodSecurityContext").fields["supplementalGroups"]
    assert groups.number == 4
    context = packed + plain + field(999, "new in v1.99") + varint(998 << 3 | 5) + struct.pack("<f", 1.0)
    tree = protobuf.decode(body("v1", "Pod", field(2, field(14, context))))
    assert tree["spec"]["securityContext"] == {"supplementalGroups": [1, 2, 3]}


def test_bytes_are_base64_and_empty_values_of_maps_stay():
    secret = field(2, field(1, "k") + field(2, b"\x00\xff")) + field(2, field(1, "e") + field(2, b""))
    assert protobuf.decode(body("v1", "Secret", secret))["data"] == {"k": "AP8=", "e": ""}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "does not start with the four bytes"),
        (b'{"kind":"Pod"}', "does not start with the four bytes"),
        (b"k8s\0\xff\xff\xff", "the envelope cannot be decoded"),
        (body("v1", "Pod", b"\x0a\x05ab"), "Pod cannot be decoded"),
        (body("v1", "Nonsense", b""), 'no kind "Nonsense" is registered for version "v1"'),
        (body("v1", "Pod", field(1, field(1, b"\xff\xfe"))), "Pod"),
        (body("v1", "Pod", field(3, field(7, field(1, 1 << 62)))), "a protobuf field of Pod cannot be read"),
        (body("v1", "Pod", field(1, field(17, field(7, field(1, b"{bad"))))), "a protobuf field of Pod cannot be read"),
        (b"k8s\0" + field(1, field(1, "v1") + field(2, "Pod")) + field(3, "gzip"), "content encoding 'gzip'"),
    ],
)
def test_bad_bytes_are_a_bad_request_that_says_what_is_wrong(data, text):
    with pytest.raises(BadRequest, match=text):
        protobuf.decode(data)


def sent(api_version, kind, raw):
    """A body as it is answered: without the empty texts that Go adds."""
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def answered(raw, kind, tree, api_version=SLICE):
    return protobuf.encode({"apiVersion": api_version, "kind": kind, **tree}) == sent(api_version, kind, raw)


MOMENT = field(1, 1_800_000_000) + field(2, 0)


def test_a_claim_with_opaque_parameters_as_a_go_driver_reads_it():
    """The numbers are those of generated.proto; parameters are JSON, and a nested message holds the configuration."""
    selector = field(1, field(1, "device.driver == 'gpu.example.com'"))
    request = field(1, "r0") + field(2, field(1, "gpu") + field(2, selector) + field(3, "ExactCount") + field(4, 1))
    opaque = field(1, "gpu.example.com") + field(2, field(1, b'{"sharing":{"strategy":"TimeSlicing"}}'))
    config = field(1, "r0") + field(2, field(1, opaque))
    raw = field(1, field(1, "c") + field(8, MOMENT)) + field(2, field(1, field(1, request) + field(3, config)))
    exactly = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
        "allocationMode": "ExactCount",
        "count": 1,
    }
    parameters = {"driver": "gpu.example.com", "parameters": {"sharing": {"strategy": "TimeSlicing"}}}
    devices = {
        "requests": [{"name": "r0", "exactly": exactly}],
        "config": [{"requests": ["r0"], "opaque": parameters}],
    }
    metadata = {"name": "c", "creationTimestamp": "2027-01-15T08:00:00Z"}
    assert answered(raw, "ResourceClaim", {"metadata": metadata, "spec": {"devices": devices}})


@pytest.mark.parametrize(
    ("version", "request_", "numbered"),
    [
        ("v1", {"name": "r", "exactly": {"deviceClassName": "gpu"}}, field(1, "r") + field(2, field(1, "gpu"))),
        ("v1beta2", {"name": "r", "exactly": {"deviceClassName": "gpu"}}, field(1, "r") + field(2, field(1, "gpu"))),
        ("v1beta1", {"name": "r", "deviceClassName": "gpu"}, field(1, "r") + field(2, "gpu")),
    ],
)
def test_every_version_has_its_own_numbers(version, request_, numbered):
    raw = field(2, field(1, field(1, numbered)))
    tree = {"spec": {"devices": {"requests": [request_]}}}
    assert answered(raw, "ResourceClaim", tree, f"resource.k8s.io/{version}")


def test_values_that_json_writes_as_one_text_are_messages():
    renewed = field(1, 1_800_000_000) + field(2, 123_456_000)
    lease = {"spec": {"holderIdentity": "n", "renewTime": "2027-01-15T08:00:00.123456Z"}}
    assert answered(field(2, field(1, "n") + field(4, renewed)), "Lease", lease, "coordination.k8s.io/v1")
    ports = [{"port": 80, "targetPort": "http"}, {"port": 81, "targetPort": 8081}]
    first = field(3, 80) + field(4, field(1, 1) + field(3, "http"))
    second = field(3, 81) + field(4, field(1, 0) + field(2, 8081))
    assert answered(field(2, field(1, first) + field(1, second)), "Service", {"spec": {"ports": ports}}, "v1")
    quota = field(2, field(1, field(1, "pods") + field(2, field(1, "0"))))
    assert answered(quota, "ResourceQuota", {"spec": {"hard": {"pods": "0"}}}, "v1")
    secret = field(2, field(1, "k") + field(2, b"\x00\xff"))
    assert answered(secret, "Secret", {"data": {"k": "AP8="}}, "v1")
    volumes = [{"name": "v", "emptyDir": {}}]
    volume = field(1, "v") + field(2, field(2, b""))
    assert answered(field(2, field(1, volume)), "Pod", {"spec": {"volumes": volumes}}, "v1")


def test_managed_fields_hold_json():
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    tree = {"metadata": {"managedFields": [{**entry, "fieldsV1": {"f:data": {"f:x": {}}}}]}}
    raw = field(1, "m") + field(2, "Apply") + field(3, "v1") + field(6, "FieldsV1")
    raw += field(7, field(1, b'{"f:data":{"f:x":{}}}'))
    assert answered(field(1, field(17, raw)), "ConfigMap", tree, "v1")


def test_a_refusal_is_a_status():
    cause = field(1, "FieldValueInvalid") + field(2, "no") + field(3, "spec")
    details = field(1, "c") + field(2, "resource.k8s.io") + field(3, "resourceclaims") + field(4, cause) + field(5, 3)
    raw = field(1, b"") + field(2, "Failure") + field(3, "words") + field(4, "Invalid") + field(5, details)
    tree = {
        "metadata": {},
        "status": "Failure",
        "message": "words",
        "reason": "Invalid",
        "details": {
            "name": "c",
            "group": "resource.k8s.io",
            "kind": "resourceclaims",
            "causes": [{"reason": "FieldValueInvalid", "message": "no", "field": "spec"}],
            "retryAfterSeconds": 3,
        },
        "code": 422,
    }
    assert answered(raw + field(6, 422), "Status", tree, "v1")


def test_metadata_alone_has_a_form_of_its_own():
    items = [{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}]
    tree = {"metadata": {"resourceVersion": "5", "remainingItemCount": 0}, "items": items}
    raw = field(1, field(2, "5") + field(4, 0)) + field(2, field(1, field(1, "a")))
    assert answered(raw, "PartialObjectMetadataList", tree, "meta.k8s.io/v1")
    assert answered(field(1, field(1, "a")), "PartialObjectMetadata", items[0], "meta.k8s.io/v1")


def test_a_frame_of_a_watch_has_its_length_and_an_object_in_an_envelope():
    inner = sent("v1", "Pod", field(1, field(1, "p")))
    event = field(1, "ADDED") + field(2, field(1, inner))
    object_ = protobuf.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    assert protobuf.encode_event("ADDED", object_) == struct.pack(">I", len(event)) + event


def test_versions_without_field_numbers_travel_as_json_only():
    with pytest.raises(UnsupportedMediaType, match="send application/json"):
        protobuf.decode(body("scheduling.k8s.io/v1alpha1", "PodGroup", b""))
    with pytest.raises(NotAcceptable, match="ask for application/json"):
        protobuf.encode({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "PodGroup"})


def test_lists_are_encoded():
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    tree = {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": items}
    assert protobuf.decode(protobuf.encode(tree)) == tree


@given(st.binary(max_size=60))
def test_any_bytes_give_a_tree_or_a_refusal(data):
    for candidate in (data, b"k8s\0" + data, body("v1", "Pod", data), body(SLICE, "ResourceSlice", data)):
        with contextlib.suppress(BadRequest):
            assert isinstance(protobuf.decode(candidate), dict)


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
PLAIN = {
    "str": TEXT,
    "i32": st.integers(-(2**31), 2**31 - 1).filter(bool),
    "i64": st.integers(-(2**63), 2**63 - 1).filter(bool),
    "bool": st.just(True),
    "bytes": st.just("AP8="),
    "quantity": st.sampled_from(["0", "1", "500m", "40Gi"]),
    "time": MOMENTS.map(lambda m: m.isoformat()[:19] + "Z"),
    "microtime": MOMENTS.map(lambda m: m.isoformat(timespec="microseconds")[:26] + "Z"),
    "intstr": st.integers(1, 9) | TEXT,
    "raw": st.dictionaries(TEXT, st.integers() | TEXT, min_size=1, max_size=2),
    "num": (st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)).filter(bool),
    "[str": st.lists(TEXT, max_size=2),
}
ZERO = {"str": "", "i32": 0, "i64": 0, "bool": False, "intstr": 0}


@st.composite
def trees(draw, name, depth=0):
    """A tree that Go could have written: no zero values except behind pointers."""
    fields = {n: f for n, f in schema.message(name).fields.items() if f.number}
    chosen = draw(st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True)) if fields and depth < 6 else []
    tree = {}
    for member in chosen:
        known = fields[member]
        value = value_of(known.element, depth)
        if known.is_list:
            value = st.lists(value, min_size=1, max_size=2)
        elif known.is_map:
            value = st.dictionaries(TEXT, value, min_size=1, max_size=2)
        elif known.pointer and known.type in ZERO:
            value |= st.just(ZERO[known.type])
        elif known.reference and not known.pointer:
            value = value.filter(bool)
        drawn = draw(value | st.none())
        if drawn is not None:
            tree[member] = drawn
    return tree


def value_of(type_, depth):
    if type_.startswith("ref:"):
        other = UNIONS.get(type_[4:])
        return trees(schema.SCHEMA, depth + 1) | other(depth) if other else trees(type_[4:], depth + 1)
    return PLAIN[type_]


UNIONS = {  # what may stand in place of a schema
    f"{schema.SCHEMA}OrArray": lambda depth: st.lists(trees(schema.SCHEMA, depth + 1), min_size=1, max_size=2),
    f"{schema.SCHEMA}OrBool": lambda depth: st.booleans(),
    f"{schema.SCHEMA}OrStringArray": lambda depth: st.lists(TEXT, min_size=1, max_size=2),
}


KINDS = sorted(
    (f"{group}/{version}" if group else version, kind, name)
    for name, message in schema.table().items()
    for group, version, kind in message.kinds
    if version != "v1alpha1"
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[0]}/{kind[1]}")
@given(st.data())
def test_every_kind_survives_a_round_trip(kind, data):
    api_version, name, message = kind
    tree = data.draw(trees(message))
    one = {"apiVersion": api_version, "kind": name, **tree}
    assert protobuf.decode(protobuf.encode(one)) == one
    listed = {"apiVersion": api_version, "kind": f"{name}List", "metadata": {"resourceVersion": "5"}, "items": [tree]}
    assert protobuf.decode(protobuf.encode(listed)) == listed


DEFINITION = "apiextensions.k8s.io/v1"


def definition(root):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {"apiVersion": DEFINITION, "kind": "CustomResourceDefinition", "spec": {"group": "g", "versions": [version]}}


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], deadline=None)
@given(trees(schema.SCHEMA))
def test_every_schema_of_a_custom_resource_survives_a_round_trip(root):
    tree = definition(root)
    assert protobuf.decode(protobuf.encode(tree)) == tree


def test_a_definition_as_a_go_client_posts_it():
    """The parts of a schema that JSON writes as something else: a value, one schema or several, a schema or a bool."""
    text = field(5, "string") + field(6, "")
    listed = field(5, "array") + field(24, field(1, text)) + field(38, 0)  # a pointer to false
    tuple_ = field(24, field(2, text) + field(2, b""))
    open_ = field(30, field(1, 1)) + field(33, field(1, 0))
    mapped = field(30, field(1, 1) + field(2, text))
    limits = varint(9 << 3 | 1) + struct.pack("<d", 10) + varint(11 << 3 | 1) + struct.pack("<d", 0.5)
    valued = field(8, field(1, b'{"a":[1]}')) + field(20, field(1, b'"x"')) + field(20, b"")
    named = field(32, field(1, "a") + field(2, field(2, "b"))) + field(3, "#/x") + field(2, "y")
    ruled = field(44, field(1, "true") + field(2, "no"))
    parts = [listed, tuple_, open_, mapped, limits, valued, named, ruled]
    root = b"".join(field(29, field(1, f"p{number}") + field(2, part)) for number, part in enumerate(parts))
    version = field(1, "v1") + field(2, 1) + field(3, 1) + field(4, field(1, root))
    sent = body(DEFINITION, "CustomResourceDefinition", field(2, field(1, "g") + field(7, version)))
    properties = [
        {"type": "array", "items": {"type": "string"}, "x-kubernetes-preserve-unknown-fields": False},
        {"items": [{"type": "string"}, {}]},
        {"additionalProperties": True, "additionalItems": False},
        {"additionalProperties": {"type": "string"}},
        {"maximum": 10, "minimum": 0.5},
        {"default": {"a": [1]}, "enum": ["x", None]},
        {"dependencies": {"a": ["b"]}, "$ref": "#/x", "$schema": "y"},
        {"x-kubernetes-validations": [{"rule": "true", "message": "no"}]},
    ]
    expected = definition({"properties": {f"p{number}": part for number, part in enumerate(properties)}})
    assert protobuf.decode(sent) == expected
    assert protobuf.decode(protobuf.encode(expected)) == expected
    read = protobuf.decode(sent)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert isinstance(read["p4"]["maximum"], int)


def nested(levels):
    tree = {"type": "string"}
    for _ in range(levels):
        tree = {"type": "object", "properties": {"p": tree}}
    return tree


def test_schemas_may_be_nested_deeper_than_the_protobuf_library_goes():
    tree = definition(nested(64))
    assert protobuf.decode(protobuf.encode(tree)) == tree


def test_a_schema_that_is_nested_without_end_is_refused():
    root = b""
    for _ in range(5000):
        root = field(28, root)
    version = field(7, field(4, field(1, root)))
    with pytest.raises(BadRequest, match="nested too deeply"):
        protobuf.decode(body(DEFINITION, "CustomResourceDefinition", field(2, version)), most=150_000)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_of_json_is_refused(number):
    root = varint(9 << 3 | 1) + struct.pack("<d", number)
    with pytest.raises(BadRequest, match="is not a JSON number"):
        protobuf.decode(body(DEFINITION, "CustomResourceDefinition", field(2, field(7, field(4, field(1, root))))))


def test_the_values_of_schemas_are_counted_before_a_tree_is_made():
    members = {f"p{number}": {"type": "string", "items": {"type": "string"}} for number in range(100)}
    data = protobuf.encode(definition({"type": "object", "properties": members}))
    with pytest.raises(TooLarge, match="limit is 400 values"):
        protobuf.decode(data, most=400)
    assert protobuf.decode(data, most=520)


@settings(max_examples=100, deadline=None)
@given(trees(f"{META}Status"))
def test_every_status_survives_a_round_trip(tree):
    tree = {"apiVersion": "v1", "kind": "Status", **{k: v for k, v in tree.items() if k not in ("apiVersion", "kind")}}
    assert protobuf.decode(protobuf.encode(tree)) == tree


def test_only_fields_of_the_keps_have_no_number():
    """What protobuf cannot say is known by name, so that a new field without a number does not go unnoticed."""
    lost = {
        f"{name.rpartition('.')[2]}.{member}"
        for name, message in schema.table().items()
        for member, known in message.fields.items()
        if not known.number and member not in ("apiVersion", "kind") and ".v1alpha1." not in name
    }
    assert lost == {
        "PodResourceClaim.podGroupResourceClaim",
        "PodSpec.workloadRef",
        "WorkloadReference.name",
        "WorkloadReference.podGroupName",
        "AllocationResult.reservedForAnyPod",
        "ResourceClaimSpec.reservedFor",
        "ResourcePoolStatusRequestSpec.ttlSecondsAfterComplete",
        "ResourcePoolStatusRequestStatus.observationTime",
        "ResourcePoolStatusRequestStatus.validationErrors",
    }


def test_more_values_than_allowed_are_refused_before_a_tree_is_made() -> None:
    containers = [{"name": f"c{number}", "env": [{"name": "A"}, {"name": "B"}]} for number in range(50)]
    body = protobuf.encode({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}})
    with pytest.raises(TooLarge, match="limit is 300 values"):
        protobuf.decode(body, most=300)
    assert len(protobuf.decode(body, most=310)["spec"]["containers"]) == 50
