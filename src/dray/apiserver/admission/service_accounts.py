"""ServiceAccount: every pod runs as a service account and has its token mounted.

The account must exist; a pod without an account gets `default`. A volume with a token bound to the pod, the CA
certificate and the namespace is mounted into each container unless the pod or its account disables that. The
account's image pull secrets are copied by name only, and restrictions of mountable secrets are not implemented.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from dray.api.names import GENERATED_ALPHABET
from dray.api.types.core import Pod, ServiceAccount
from dray.api.validation.pods import MIRROR
from dray.api.wire import Tree
from dray.apiserver.admission import Admission, AdmissionRequest
from dray.apiserver.read.reader import Reader, one

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607  # an hour, and seven seconds that make these tokens recognizable
VOLUME_PREFIX = "kube-api-access-"


class ServiceAccountAdmission(Admission):
    """Sets the service account of pods and mounts its token."""

    name = "ServiceAccount"
    types = (Pod,)
    operations = ("CREATE",)
    reads = (ServiceAccount,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def admit(self, request: AdmissionRequest) -> None:
        """Set account, image pull secrets and token volume of a new pod.

        Raises Forbidden if the account does not exist.
        """
        if request.subresource or request.tree is None:
            return
        spec, metadata = request.tree.get("spec"), request.tree.get("metadata") or {}
        if not isinstance(spec, dict):
            return
        if MIRROR in (metadata.get("annotations") or {}):
            if spec.get("serviceAccountName"):
                raise request.forbidden("a mirror pod may not reference service accounts")
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = one(self._reader, ServiceAccount, request.namespace, name)
        if account is None:
            where = f"{request.namespace}/{name}"
            raise request.forbidden(f'error looking up service account {where}: serviceaccount "{name}" not found')
        if account.imagePullSecrets and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": reference.name} for reference in account.imagePullSecrets]
        if _mounts_token(spec, account):
            _mount(spec)


def _mounts_token(spec: Tree, account: ServiceAccount) -> bool:
    """Return whether to mount the token: as the pod says, else its account, else True."""
    if spec.get("automountServiceAccountToken") is not None:
        return bool(spec["automountServiceAccountToken"])
    return account.automountServiceAccountToken is not False


def _mount(spec: Tree) -> None:
    """Add the token volume and mount it into all containers without a token.

    Does nothing if all containers have one. A volume with the prefix of token volumes is used again.
    """
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    missing = [container for container in containers if not _has_token(container)]
    volumes = spec.get("volumes") or []
    volume = next((v["name"] for v in volumes if str(v.get("name", "")).startswith(VOLUME_PREFIX)), "")
    if not missing:
        return
    if not volume:
        volume = VOLUME_PREFIX + _suffix(spec.get("serviceAccountName", ""))
        spec["volumes"] = [*volumes, {"name": volume, "projected": _projection()}]
    for container in missing:
        mount = {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


@lru_cache(maxsize=1024)
def _suffix(account: str) -> str:
    """Return five characters derived from the account's name.

    Thus pods of one template stay equal and can share cached results.
    """
    digest = hashlib.sha256(account.encode()).digest()
    return "".join(GENERATED_ALPHABET[byte % len(GENERATED_ALPHABET)] for byte in digest[:5])


def _has_token(container: Tree) -> bool:
    return any(mount.get("mountPath") == TOKEN_PATH for mount in container.get("volumeMounts") or ())


def _projection() -> Tree:
    """Return the projected volume with token, CA certificate and namespace."""
    return {
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [
                        {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                    ]
                }
            },
        ],
    }
