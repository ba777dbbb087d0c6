"""Field selectors: which fields a resource offers, and how they match."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import BadRequest
from dray.api.resources import BY_NAME, DRA
from dray.api.selectors import parse_fields
from dray.api.types import batch, core, meta, resource

POD = core.Pod(
    metadata=meta.ObjectMeta(name="p", namespace="ns"),
    spec=core.PodSpec(nodeName="n1", hostNetwork=True),
    status=core.PodStatus(phase="Running", podIPs=(core.PodIP("10.0.0.1"),)),
)
SLICE = resource.ResourceSlice(
    spec=resource.ResourceSliceSpec(driver="d", nodeName=None, pool=resource.ResourcePool(name="p"))
)
EVENT = core.Event(involvedObject=core.ObjectReference(kind="Pod", name="p"), reason="R", reportingComponent="c")


@pytest.mark.parametrize(
    ("plural", "object_", "text", "matches"),
    [
        (("", "pods"), POD, "metadata.name=p,spec.nodeName==n1", True),
        (("", "pods"), POD, "status.phase!=Running", False),
        (("", "pods"), POD, "spec.hostNetwork=true,status.podIPs=10.0.0.1", True),
        (("", "pods"), POD, "metadata.namespace=other", False),
        (("", "pods"), POD, "", True),
        ((DRA, "resourceslices"), SLICE, "spec.driver=d,spec.nodeName=", True),
        ((DRA, "resourceslices"), SLICE, "spec.nodeName=n1", False),
        ((DRA, "resourceslices"), SLICE, "spec.pool.name=p", True),
        ((DRA, "resourceslices"), SLICE, "spec.pool.name!=p", False),
        (("", "events"), EVENT, "involvedObject.kind=Pod,reason=R,source=c", True),
        (("events.k8s.io", "events"), EVENT, "regarding.name=p,reportingController=c", True),
        (("batch", "jobs"), batch.Job(status=batch.JobStatus(succeeded=2)), "status.successful=2", True),
        (("", "nodes"), core.Node(), "spec.unschedulable=false", True),
        (("", "configmaps"), core.ConfigMap(metadata=meta.ObjectMeta(name="a,b")), "metadata.name=a\\,b", True),
    ],
)
def test_fields_select(plural: tuple[str, str], object_: Any, text: str, matches: bool) -> None:
    assert parse_fields(BY_NAME[plural], text).matches(object_) is matches


@pytest.mark.parametrize(
    ("plural", "text", "complaint"),
    [
        (("", "pods"), "spec.nope=1", "field label not supported: spec.nope"),
        (("", "pods"), "nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
        (("", "pods"), "spec.nodeName=a=b", "invalid selector"),
        (("", "configmaps"), "data.x=1", '"data.x" is not a known field selector: only "metadata.name"'),
        (
            (DRA, "resourceslices"),
            "spec.pool=p",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice",
        ),
        (("batch", "jobs"), "status.x=1", 'field label "status.x" not supported for Job'),
    ],
)
def test_what_is_not_offered_is_refused(plural: tuple[str, str], text: str, complaint: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse_fields(BY_NAME[plural], text)
    assert complaint in caught.value.message


def test_an_exact_value_can_be_asked_for() -> None:
    selector = parse_fields(BY_NAME["", "pods"], "spec.nodeName=n1,status.phase!=Failed")
    assert selector.exact("spec.nodeName") == "n1"
    assert selector.exact("status.phase") is None
    assert not selector.everything
