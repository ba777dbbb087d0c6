"""Options and helpers of commands that read a running cluster: which cluster, and as which user."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from dray.assembly.clusters import DEFAULT_DIR

if TYPE_CHECKING:
    from dray.client.http import Http


class ClusterObjects(NamedTuple):
    """The objects in a cluster that scheduling depends on; `unread` are the resources that the user may not list."""

    objects: list[Any]
    unread: list[str]
    server: str


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", default="", help="kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)")
    parser.add_argument("--context", default="", help="context of the kubeconfig file (default: its current context)")


def connect(args: argparse.Namespace, *, briefly: bool = True) -> Http:
    """Return a client for the cluster, as a context manager. Raises ConfigError.

    With `briefly`, the client is optimized for a few requests.
    """
    from dray.client.config import ConfigError, load

    try:
        config = load(args.kubeconfig, args.context)
    except ConfigError as error:
        own = DEFAULT_DIR.resolve() / "kubeconfig"
        if args.kubeconfig or os.environ.get("KUBECONFIG") or not own.exists():
            raise
        raise ConfigError(f"{error}; for the cluster of this directory: export KUBECONFIG={own}") from error
    if briefly:
        from dray.client.brief import client_for

        return client_for(config)
    from dray.client.http import Http

    return Http(config)


async def namespace_problem(client: Http, namespace: str) -> str:
    """Return an error message if a namespace does not exist; "" if it exists or may not be read."""
    from dray.api.errors import ApiError, NotFound
    from dray.api.types.core import Namespace

    try:
        await client.get(Namespace, namespace)
    except NotFound:
        return f"namespace {namespace} does not exist"
    except ApiError:
        pass
    return ""


async def read_all(args: argparse.Namespace, *more: type[Any]) -> ClusterObjects:
    """Return all objects that a recording contains, and objects of more types. Raises ConfigError and ApiError."""
    from dray.inspect.reading import read
    from dray.recordings.recording import TYPES

    async with connect(args) as client:
        types = (*TYPES, *more)
        found = await read(client, [(type_, "") for type_ in types], "")
        return ClusterObjects(
            [one for type_ in types for one in found.all(type_)], found.blind_spots(every=True), client.config.server
        )
