"""Every pod has an account and a token."""

from typing import Any

import pytest

from dray.api.errors import Forbidden
from dray.apiserver.admission.service_accounts import TOKEN_PATH, ServiceAccountAdmission
from tests.apiserver.admission.writing import create, typed, update
from tests.apiserver.reading import Objects, account, pod


def mounted(tree: dict[str, Any]) -> bool:
    """Whether every container sees the token volume."""
    found = typed(tree)
    paths = [{m.mountPath for m in c.volumeMounts} for c in (*found.spec.containers, *found.spec.initContainers)]
    return bool(found.spec.volumes) and all(TOKEN_PATH in seen for seen in paths)


async def test_pod_gets_the_default_account_and_its_token() -> None:
    tree = pod("p", initContainers=[{"name": "i", "image": "app"}])
    await create(ServiceAccountAdmission(Objects(account("default"))), tree)
    assert tree["spec"]["serviceAccountName"] == tree["spec"]["serviceAccount"] == "default"
    assert mounted(tree)
    (volume,) = tree["spec"]["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    token, certificate, downward = volume["projected"]["sources"]
    assert token == {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    assert certificate["configMap"]["name"] == "kube-root-ca.crt"
    assert downward["downwardAPI"]["items"][0]["path"] == "namespace"


async def test_missing_account_is_named() -> None:
    with pytest.raises(Forbidden) as caught:
        await create(ServiceAccountAdmission(Objects()), pod("p", serviceAccountName="robot"))
    assert caught.value.message == (
        'pods "p" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    )


@pytest.mark.parametrize(
    ("of_pod", "of_account", "expected"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False), (False, None, False)],
)
async def test_pod_decides_before_its_account(of_pod: bool | None, of_account: bool | None, expected: bool) -> None:
    tree = pod("p", **({} if of_pod is None else {"automountServiceAccountToken": of_pod}))
    fields = {} if of_account is None else {"automountServiceAccountToken": of_account}
    await create(ServiceAccountAdmission(Objects(account("default", **fields))), tree)
    assert mounted(tree) is expected


async def test_container_that_mounts_something_there_keeps_it() -> None:
    own = {"name": "c", "image": "app", "volumeMounts": [{"name": "mine", "mountPath": TOKEN_PATH}]}
    tree = pod("p", containers=[own], volumes=[{"name": "mine", "emptyDir": {}}])
    await create(ServiceAccountAdmission(Objects(account("default"))), tree)
    assert [volume["name"] for volume in tree["spec"]["volumes"]] == ["mine"]
    assert len(tree["spec"]["containers"][0]["volumeMounts"]) == 1


async def test_image_pull_secrets_come_from_the_account() -> None:
    tree = pod("p")
    await create(ServiceAccountAdmission(Objects(account("default", imagePullSecrets=[{"name": "reg"}]))), tree)
    assert tree["spec"]["imagePullSecrets"] == [{"name": "reg"}]


async def test_mirror_pod_has_no_account() -> None:
    tree = pod("p")
    tree["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    await create(ServiceAccountAdmission(Objects()), tree)
    assert "serviceAccountName" not in tree["spec"]
    tree["spec"]["serviceAccountName"] = "robot"
    with pytest.raises(Forbidden, match="mirror pod may not reference service accounts"):
        await create(ServiceAccountAdmission(Objects()), tree)


async def test_update_changes_nothing() -> None:
    tree = pod("p")
    await update(ServiceAccountAdmission(Objects()), pod("p"), tree)
    assert "volumes" not in tree["spec"]
