"""Assemble the security of a server: authentication, authorization, admission and reviews.

The only module that knows how they depend on each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.api.gates import FeatureGates
from dray.apiserver.admission import Chain
from dray.apiserver.admission.plugins import default_chain
from dray.apiserver.admission.policy_params import FindKind
from dray.apiserver.admission.pool_status import RequestLimits
from dray.apiserver.read.reader import Reader
from dray.apiserver.request import Request
from dray.apiserver.security.authentication import Authenticator, read_users
from dray.apiserver.security.authorization import Union
from dray.apiserver.security.authorization.node import NodeAuthorizer
from dray.apiserver.security.authorization.rbac import Rbac
from dray.apiserver.security.authorization.reviews import Reviews
from dray.apiserver.security.certificates import Keys
from dray.apiserver.security.tokens import TokenAuthority
from dray.apiserver.steps import RequestResolver


@dataclass(frozen=True)
class SecurityGuards:
    """Authentication, authorization, admission and reviews that share one view of the cluster."""

    tokens: TokenAuthority | None  # None without keys
    authorizer: Union
    authenticator: Authenticator
    admission: Chain
    reviews: Mapping[str, Callable[[Request], dict[str, Any]]]  # by plural name


def assemble(
    reader: Reader,
    keys: Keys | None,
    *,
    resolver: RequestResolver | None = None,
    find_kind: FindKind | None = None,
    gates: FeatureGates = FeatureGates(),  # noqa: B008 (frozen)
    token_file: Path | str | None = None,
    disabled_plugins: Iterable[str] = (),
    pool_status: RequestLimits = RequestLimits(),  # noqa: B008 (frozen)
) -> SecurityGuards:
    """Return the guards of a server. Raises ValueError for an invalid token file or an unknown plugin.

    A server without keys issues no tokens; tests and clusters within one process use that.
    """
    tokens = TokenAuthority(reader, keys.signing_key) if keys else None
    rbac = Rbac(reader)
    authorizer = Union(NodeAuthorizer(reader), rbac)
    authenticator = Authenticator(authorizer, tokens, read_users(keys.admin_token if keys else "", token_file))
    admission = default_chain(
        reader,
        authorizer,
        rbac,
        resolver=resolver,
        find_kind=find_kind,
        gates=gates,
        root_ca=keys.authority.decode() if keys else "",
        disabled=disabled_plugins,
        pool_status=pool_status,
    )
    reviews = Reviews(authenticator, authorizer, rbac)
    return SecurityGuards(tokens, authorizer, authenticator, admission, reviews.by_plural())
