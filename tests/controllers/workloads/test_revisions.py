"""Which set stands for which template."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.types.core import PodTemplateSpec
from dray.controllers.workloads.revisions import (
    HASH_LABEL,
    REVISION,
    inherited_annotations,
    next_revision,
    same_template,
    set_tree,
    sort_sets,
    superfluous,
    template_hash,
)
from tests.controllers.workloads.objects import deployment, replica_set


def template(image: str = "a", **labels: str) -> PodTemplateSpec:
    tree: dict[str, Any] = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    return msgspec.convert(tree, PodTemplateSpec)


def test_the_hash_follows_from_the_template_and_the_collisions() -> None:
    assert template_hash(template(a="1", b="2"), 0) == template_hash(template(b="2", a="1"), 0)
    hashes = {template_hash(template(image), collisions) for image in "ab" for collisions in (0, 1)}
    assert len(hashes) == 4
    assert all(len(one) == 10 and one.isalnum() and one == one.lower() for one in hashes)


def test_templates_are_the_same_whatever_the_hash_label_says() -> None:
    assert same_template(template(app="x"), template(app="x", **{HASH_LABEL: "abc"}))
    assert not same_template(template("a"), template("b"))


def test_the_oldest_set_with_the_template_is_the_new_one() -> None:
    subject = deployment(1)
    other = replica_set("other", 1, age=9)
    other = replace(other, spec=replace(other.spec, template=template("b")))
    first, second = replica_set("first", 1, age=5), replica_set("second", 1, age=1)
    sets = sort_sets(subject, [second, other, first])
    assert sets.new is first
    assert [one.metadata.name for one in sets.old] == ["other", "second"]
    assert sort_sets(subject, [other]).new is None


def test_revisions_count_on_and_a_returning_set_keeps_its_history() -> None:
    old = [replica_set("a", 0, annotations={REVISION: "2"}), replica_set("b", 0, annotations={REVISION: "7"})]
    assert next_revision(old) == 8
    assert next_revision([]) == 1
    subject = deployment(1)
    meta = replace(subject.metadata, annotations={"team": "blue", REVISION: "8", "deployment.kubernetes.io/x": "y"})
    subject = replace(subject, metadata=meta)
    assert inherited_annotations(subject, None, 3) == {
        "team": "blue",
        "deployment.kubernetes.io/x": "y",
        REVISION: "3",
    }
    back = replica_set("back", 0, annotations={REVISION: "4", "deployment.kubernetes.io/revision-history": "1"})
    annotations = inherited_annotations(subject, back, 8)
    assert annotations[REVISION] == "8"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1,4"
    assert inherited_annotations(subject, back, 3)[REVISION] == "4"  # it is the newest already


def test_only_idle_sets_beyond_the_limit_are_superfluous() -> None:
    sets = [replica_set(str(n), 0, annotations={REVISION: str(n)}) for n in (3, 1, 2, 10)]
    busy = replica_set("0", 1, annotations={REVISION: "0"})
    names = [one.metadata.name for one in superfluous(deployment(1, revisionHistoryLimit=2), [*sets, busy])]
    assert names == ["1", "2"]
    assert superfluous(deployment(1), sets) == []


def test_a_set_takes_over_the_template_and_adds_its_hash_everywhere() -> None:
    tree = set_tree(deployment(1, selector={"matchLabels": {"a": "b"}}, minReadySeconds=5), 3, {"x": "y"})
    hash_ = tree["metadata"]["labels"][HASH_LABEL]
    assert tree["metadata"]["name"] == f"web-{hash_}"
    assert tree["spec"]["selector"]["matchLabels"] == {"a": "b", HASH_LABEL: hash_}
    assert tree["spec"]["template"]["metadata"]["labels"] == {HASH_LABEL: hash_}
    assert (tree["spec"]["replicas"], tree["spec"]["minReadySeconds"]) == (3, 5)
