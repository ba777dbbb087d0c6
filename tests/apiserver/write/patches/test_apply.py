"""Server-side apply: merge, removal, shared ownership, conflicts, force, versions, subresources."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.api.errors import BadRequest, Conflict
from dray.api.resources import BY_NAME
from dray.apiserver.write.patches import BadPatch, server_side_apply, track_update
from dray.apiserver.write.patches.typed import all_fields, applied_fields, root

DEPLOYMENTS = BY_NAME["apps", "deployments"]
PODS = BY_NAME["", "pods"]
CLAIMS = BY_NAME["resource.k8s.io", "resourceclaims"]
T1, T2, T3 = (f"2027-01-15T08:00:0{n}Z" for n in (1, 2, 3))


class Cluster:
    """One object with its managed fields, as a server would keep it."""

    def __init__(self, resource):
        self.resource = resource
        self.live = None
        self.managed = []

    def named(self, parts, version="v1"):
        metadata = {"name": "x", "namespace": "n", **parts.pop("metadata", {})}
        api_version = self.resource.api_version(version)
        return {"apiVersion": api_version, "kind": self.resource.kind, "metadata": metadata, **parts}

    def apply(self, manager, time=T1, version="v1", force=False, subresource="", **parts):
        wanted = self.named(copy.deepcopy(parts), version)
        before = copy.deepcopy((self.live, wanted, self.managed))
        result = server_side_apply(
            self.resource, version, self.live, wanted, self.managed,
            manager=manager, time=time, force=force, subresource=subresource,
        )  # fmt: skip
        assert (self.live, wanted, self.managed) == before, "an input was changed"
        self.live, self.managed = result.tree, result.managed
        return self

    def update(self, manager, time=T1, subresource="", **parts):
        new = {**(self.live or self.named({})), **parts}
        self.managed = track_update(
            self.resource, self.live, new, self.managed, manager=manager, time=time, subresource=subresource
        )
        self.live = new
        return self

    def owner(self, manager):
        return next((e for e in self.managed if e["manager"] == manager), None)


def spec(**parts):
    return {"spec": parts}


def test_the_first_apply_creates_and_owns_what_it_names():
    cluster = Cluster(DEPLOYMENTS).apply("me", metadata={"labels": {"a": "1"}}, **spec(replicas=1))
    assert cluster.live["spec"] == {"replicas": 1}
    assert cluster.managed == [
        {
            "manager": "me",
            "operation": "Apply",
            "apiVersion": "apps/v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:replicas": {}}},
        }
    ]


def test_what_is_applied_no_more_goes_away():
    cluster = Cluster(DEPLOYMENTS).apply(
        "me", metadata={"labels": {"a": "1", "b": "2"}}, **spec(replicas=1, paused=True)
    )
    cluster.apply("me", T2, metadata={"labels": {"a": "1"}}, **spec(replicas=1))
    assert cluster.live["metadata"]["labels"] == {"a": "1"}
    assert cluster.live["spec"] == {"replicas": 1}
    assert cluster.owner("me")["time"] == T2


def test_a_container_that_loses_everything_goes_too_and_the_object_keeps_its_name():
    cluster = Cluster(DEPLOYMENTS).apply(
        "me", metadata={"labels": {"a": "1"}}, **spec(strategy={"type": "Recreate"}, replicas=1)
    )
    cluster.live["metadata"]["uid"] = "u"
    cluster.apply("me", **spec(replicas=1))
    assert cluster.live["metadata"] == {"name": "x", "namespace": "n", "uid": "u"}
    assert cluster.live["spec"] == {"replicas": 1}


def test_what_somebody_else_owns_too_stays():
    cluster = Cluster(DEPLOYMENTS).apply("me", **spec(replicas=1, paused=True)).apply("you", **spec(replicas=1))
    cluster.apply("me", T2, **spec(paused=True))
    assert cluster.live["spec"] == {"replicas": 1, "paused": True}
    assert cluster.owner("me")["fieldsV1"] == {"f:spec": {"f:paused": {}}}
    cluster.apply("you", T3)
    assert cluster.live["spec"] == {"paused": True}
    assert cluster.owner("you") is None


def test_what_nobody_applied_stays():
    cluster = Cluster(DEPLOYMENTS).update("creator", **spec(replicas=1, minReadySeconds=5))
    cluster.apply("me", **spec(paused=True)).apply("me", T2, **spec(paused=False))
    assert cluster.live["spec"] == {"replicas": 1, "minReadySeconds": 5, "paused": False}


def test_a_field_of_somebody_else_is_a_conflict():
    cluster = Cluster(DEPLOYMENTS).update("creator", **spec(replicas=1))
    with pytest.raises(Conflict) as refused:
        cluster.apply("me", **spec(replicas=2))
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "creator" using apps/v1: .spec.replicas',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "creator" using apps/v1',
                    "field": ".spec.replicas",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_told_by_manager():
    cluster = Cluster(PODS).apply("you", metadata={"labels": {"a": "1"}}, **spec(hostname="h"))
    cluster.update("kubelet", status={"phase": "Running"}, subresource="status")
    cluster.update("creator", spec={"hostname": "h", "nodeName": "n1"})
    with pytest.raises(Conflict) as refused:
        cluster.apply("me", metadata={"labels": {"a": "2"}}, **spec(hostname="i", nodeName="n2"))
    assert refused.value.message == (
        "Apply failed with 3 conflicts: "
        'conflicts with "creator" using v1:\n- .spec.nodeName\n'
        'conflicts with "you":\n- .metadata.labels.a\n- .spec.hostname'
    )
    with pytest.raises(Conflict, match=r'conflict with "kubelet" with subresource "status" using v1: \.status\.phase'):
        cluster.apply("me", subresource="status", status={"phase": "Failed"})


def test_force_takes_the_field():
    cluster = Cluster(DEPLOYMENTS).update("creator", **spec(replicas=1))
    cluster.apply("me", T2, force=True, **spec(replicas=2))
    assert cluster.live["spec"]["replicas"] == 2
    assert [e["manager"] for e in cluster.managed] == ["me"]


def test_the_same_value_is_no_conflict_but_shared():
    cluster = Cluster(DEPLOYMENTS).update("creator", **spec(replicas=1)).apply("me", **spec(replicas=1))
    assert {e["manager"] for e in cluster.managed} == {"me", "creator"}


def test_applying_the_same_again_changes_nothing():
    cluster = Cluster(DEPLOYMENTS).apply("me", **spec(replicas=1))
    before = copy.deepcopy((cluster.live, cluster.managed))
    cluster.apply("me", T3, **spec(replicas=1))
    assert (cluster.live, cluster.managed) == before


def test_lists_merge_by_key_and_keep_their_order():
    cluster = Cluster(PODS).update("creator", **spec(containers=[{"name": n, "image": n} for n in "abc"]))
    cluster.apply("me", **spec(containers=[{"name": "c", "tty": True}, {"name": "new"}, {"name": "a", "tty": True}]))
    assert cluster.live["spec"]["containers"] == [
        {"name": "b", "image": "b"},
        {"name": "c", "image": "c", "tty": True},
        {"name": "new"},
        {"name": "a", "image": "a", "tty": True},
    ]
    cluster.apply("me", T2, **spec(containers=[{"name": "a", "tty": True}]))
    assert [c["name"] for c in cluster.live["spec"]["containers"]] == ["b", "c", "a"]
    assert "tty" not in cluster.live["spec"]["containers"][1]


def test_a_new_element_comes_after_those_that_are_there():
    cluster = Cluster(PODS).update("creator", **spec(containers=[{"name": "a"}, {"name": "b"}]))
    cluster.apply("me", **spec(containers=[{"name": "new"}]))
    assert [c["name"] for c in cluster.live["spec"]["containers"]] == ["a", "b", "new"]


def test_keys_have_defaults():
    port = [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP", "name": "http"}]}]
    cluster = Cluster(PODS).update("creator", **spec(containers=port))
    cluster.apply("me", **spec(containers=[{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}]))
    assert cluster.live["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP", "name": "http", "hostPort": 8080}
    ]


def test_sets_are_joined_and_left_value_by_value():
    cluster = Cluster(PODS).apply("me", metadata={"finalizers": ["a/a", "b/b"]})
    cluster.apply("you", metadata={"finalizers": ["c/c"]}).apply("me", T2, metadata={"finalizers": ["b/b"]})
    assert cluster.live["metadata"]["finalizers"] == ["b/b", "c/c"]


def test_atomic_lists_have_one_owner():
    requests = [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]
    cluster = Cluster(CLAIMS).apply("me", **spec(devices={"requests": requests}))
    assert cluster.owner("me")["fieldsV1"] == {"f:spec": {"f:devices": {"f:requests": {}}}}
    with pytest.raises(Conflict, match=r"\.spec\.devices\.requests"):
        cluster.apply("you", **spec(devices={"requests": [{"name": "b"}]}))
    cluster.apply("you", force=True, **spec(devices={"requests": [{"name": "b"}]}))
    assert cluster.live["spec"]["devices"]["requests"] == [{"name": "b"}]


def test_status_is_applied_by_its_subresource_only():
    cluster = Cluster(CLAIMS).update("creator", **spec(devices={}))
    cluster.apply("sched", status={"allocation": {"devices": {}}})
    assert "status" not in cluster.live
    cluster.apply(
        "sched", subresource="status", spec={"devices": {"config": []}}, status={"allocation": {"devices": {}}}
    )
    assert cluster.live["status"] == {"allocation": {"devices": {}}}
    assert cluster.live["spec"] == {"devices": {}}
    assert [e.get("subresource", "") for e in cluster.managed if e["operation"] == "Apply"] == ["status"]


def test_an_applier_may_change_its_version():
    """What it applied in v1beta1 and leaves out in v1 goes, though the two spell fields differently."""
    cluster = Cluster(CLAIMS)
    beta = {"devices": {"requests": [{"name": "r", "deviceClassName": "gpu"}]}}
    result = server_side_apply(
        CLAIMS, "v1beta1", None, cluster.named({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": beta}, "v1beta1"),
        [], manager="me", time=T1,
    )  # fmt: skip
    cluster.managed = result.managed
    cluster.live = cluster.named(
        {
            "metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        }
    )
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    cluster.apply("me", T2, metadata={"labels": {"a": "1"}}, **spec(devices={"requests": requests}))
    assert cluster.live["metadata"]["labels"] == {"a": "1"}
    assert cluster.live["spec"]["devices"]["requests"] == requests
    assert [(e["manager"], e["apiVersion"]) for e in cluster.managed] == [("me", "resource.k8s.io/v1")]


def test_fields_of_somebody_who_speaks_another_version_stay():
    cluster = Cluster(CLAIMS).apply("me", metadata={"labels": {"a": "1", "b": "2"}})
    other = {"f:metadata": {"f:labels": {"f:b": {}}}}
    cluster.managed.append(
        {
            "manager": "you",
            "operation": "Update",
            "apiVersion": "resource.k8s.io/v1beta1",
            "time": T1,
            "fieldsV1": other,
        }
    )
    cluster.apply("me", T2)
    assert cluster.live["metadata"]["labels"] == {"b": "2"}


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ([], "an applied configuration is an object"),
        ({"kind": "Pod"}, 'needs apiVersion "v1"'),
        ({"apiVersion": "v1", "kind": "Node"}, 'needs kind "Pod"'),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {"managedFields": []}}, "metadata.managedFields must be nil"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": True}, ".metadata: expected map, got boolean"),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": {}}}, ".spec.containers: expected list, got object"),
        ({"apiVersion": "v1", "kind": "Pod", "spec": {"nope": 1}}, r"\(/; v1, Kind=Pod\): .spec.nope: field not declared in schema"),
        (
            {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a"}, {"name": "a"}]}},
            r'.spec.containers: duplicate entries for key \[name="a"\]',
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_a_bad_request(tree, text):
    with pytest.raises((BadRequest, BadPatch), match=text):
        server_side_apply(PODS, "v1", None, tree, [], manager="m", time=T1)


NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.sampled_from(["1", "2"])
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": VALUES, "args": st.lists(VALUES, max_size=2)}),
    unique_by=lambda c: c["name"],
    max_size=3,
)
CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "labels": st.dictionaries(NAMES, VALUES, max_size=2),
                "finalizers": st.lists(NAMES, unique=True, max_size=3),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": CONTAINERS,
                "nodeSelector": st.dictionaries(NAMES, VALUES, max_size=2),
                "affinity": st.fixed_dictionaries({}, optional={"nodeAffinity": st.just({})}),
                "hostname": VALUES,
            },
        ),
    },
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["apply", "update"]), st.sampled_from("xyz"), CONFIGS), min_size=1, max_size=6
)


def contains(shape, whole, part):
    return difference_is_empty(applied_fields(shape, part), all_fields(shape, whole))


def difference_is_empty(left, right):
    return all(k == "." or (k in right and difference_is_empty(v, right[k])) for k, v in left.items())


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_any_history_keeps_the_books_straight(steps):
    """What was applied is there, applying twice is applying once, and nobody owns what does not exist."""
    cluster = Cluster(PODS)
    shape = root(PODS.message())
    for operation, manager, config in steps:
        if operation == "update":
            cluster.update(manager, **cluster.named(copy.deepcopy(config)))
            continue
        cluster.apply(manager, force=True, **config)
        assert contains(shape, cluster.live, config)
        for member in ("labels",):
            for key, value in config.get("metadata", {}).get(member, {}).items():
                assert cluster.live["metadata"][member][key] == value
        before = copy.deepcopy((cluster.live, cluster.managed))
        cluster.apply(manager, T3, **config)
        assert (cluster.live, cluster.managed) == before
        for entry in cluster.managed:
            if entry["operation"] == "Update":
                assert difference_is_empty(entry["fieldsV1"], all_fields(shape, cluster.live))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "TCP"]),
    lambda child: (
        st.lists(child, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "containers", "ports", "containerPort", "protocol", "labels", "finalizers", "tolerations"]
            ),
            child,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING, ANYTHING, ANYTHING)
def test_trees_of_any_shape_are_applied_or_refused(live, applied, metadata):
    """Types are checked later; until then nothing may fall over."""
    cluster = Cluster(PODS).update("creator", spec=live)
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": applied}
    for _ in range(2):
        try:
            result = server_side_apply(
                PODS, "v1", cluster.live, tree, cluster.managed, manager="m", time=T1, force=True
            )
        except BadRequest:
            return
        cluster.live, cluster.managed = result.tree, result.managed
