"""A complete cluster inside a test's process, used through plain calls without asyncio."""

from __future__ import annotations

import asyncio
import copy
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from dray.api.conversion import to_stored
from dray.api.resources import RESOURCES, Resource
from dray.api.wire import Tree
from dray.assembly import ClusterOptions, ServerStartError
from dray.assembly.clusters import ClusterDirectory
from dray.assembly.parts import plan_of
from dray.assembly.server import StartedServer, serve_until
from dray.files import yaml_documents

if TYPE_CHECKING:
    from dray.client import Client

T = TypeVar("T")
_START_SECONDS = 60.0
_WAIT_SECONDS = 30.0
_LOOK_SECONDS = 0.02


class RunningCluster:
    """A cluster that runs during a `with` block. Options are the fields of `dray.assembly.ClusterOptions`."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._directory = tempfile.TemporaryDirectory(prefix="dray-")  # a short path, because socket paths are limited
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._client: Client | None = None
        self._served: Mapping[Resource, Sequence[str]] = {}
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="dray cluster", daemon=True)

    @property
    def directory(self) -> Path:
        return Path(self._options.get("dir", self._directory.name))

    @property
    def kubeconfig(self) -> Path:
        """Path of the kubeconfig with which kubectl and client libraries reach the cluster as administrator."""
        return self.directory / "kubeconfig"

    def __enter__(self) -> RunningCluster:
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise ServerStartError(f"the cluster is not ready after {_START_SECONDS:g} s")
        if self._failure is not None:
            self._directory.cleanup()
            raise self._failure
        return self

    def __exit__(self, *reason: object) -> None:
        if self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        if "dir" not in self._options:  # a given directory is kept
            ClusterDirectory(self.directory).delete()
        self._directory.cleanup()

    # -- what a test does

    def apply(self, manifests: str | Path | Tree, namespace: str = "default") -> None:
        """Create the objects of a manifest: a file, YAML text, or a tree. Existing objects are replaced.

        Raises ValueError for an API version that the cluster does not serve, as kubectl does.
        """
        for tree in _trees(manifests):
            self._call(self._put(tree, namespace))

    def get(self, plural: str, name: str, namespace: str = "default") -> Tree:
        """Return one object as a JSON tree. `plural` is the resource's plural name. Raises `NotFound`."""
        import msgspec

        from dray.client.interface import type_of

        resource = _resource(plural)
        found = self._call(self._ask().get(type_of(resource), name, namespace if resource.namespaced else ""))
        tree: Tree = msgspec.to_builtins(found)
        return tree

    def list(self, plural: str, namespace: str = "") -> list[Tree]:
        """Return all objects of a resource as JSON trees, in one namespace, or in all if `namespace` is empty."""
        import msgspec

        from dray.client.interface import type_of

        page = self._call(self._ask().list(type_of(_resource(plural)), namespace))
        return [msgspec.to_builtins(one) for one in page.items]

    def patch(self, plural: str, name: str, patch: Tree, namespace: str = "default", subresource: str = "") -> None:
        """Change an object with a JSON merge patch."""
        from dray.client.interface import type_of

        resource = _resource(plural)
        where = namespace if resource.namespaced else ""
        self._call(self._ask().patch(type_of(resource), name, patch, where, subresource=subresource))

    def delete(self, plural: str, name: str, namespace: str = "default", grace: int | None = None) -> None:
        """Delete an object; `grace` is a pod's grace period in seconds, 0 for none."""
        from dray.client.interface import type_of

        resource = _resource(plural)
        where = namespace if resource.namespaced else ""
        self._call(self._ask().delete(type_of(resource), name, where, grace=grace))

    def wait(
        self,
        plural: str,
        name: str,
        condition: Callable[[Tree], bool],
        namespace: str = "default",
        seconds: float = _WAIT_SECONDS,
    ) -> Tree:
        """Wait until an object exists and `condition` returns True for it. Returns the object.

        Raises TimeoutError after `seconds`, with the last state of the object.
        """
        from dray.api.errors import NotFound

        deadline = time.monotonic() + seconds
        last: Tree | None = None
        while time.monotonic() < deadline:
            try:
                last = self.get(plural, name, namespace)
                if condition(last):
                    return last
            except NotFound:
                last = None
            time.sleep(_LOOK_SECONDS)
        state = "it does not exist" if last is None else yaml.safe_dump(last.get("status", last))
        raise TimeoutError(f"{plural} {namespace}/{name} is not as expected after {seconds:g} s: {state}")

    # -- the thread

    def _run(self) -> None:
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        options = ClusterOptions(**{"dir": self.directory, "store": "memory", "port": 0, **self._options})
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        await serve_until(self._stopping, options, plan_of(options), self._ready)

    def _ready(self, started: StartedServer) -> None:
        from dray.api.users import ADMIN
        from dray.client import InProcess

        self._served = started.running.served
        self._client = InProcess(started.running.api, ADMIN, user_agent="dray-testing")
        self._started.set()

    def _ask(self) -> Client:
        assert self._client is not None, "the cluster runs only inside its `with` block"
        return self._client

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_SECONDS)

    async def _put(self, tree: Tree, namespace: str) -> None:
        from dray.api.errors import AlreadyExists
        from dray.client.interface import type_of

        resource, version = _resource_of(tree), str(tree["apiVersion"]).rpartition("/")[2]
        if version not in self._served.get(resource, ()):
            raise ValueError(
                f"no matches for kind {resource.kind} in version {tree['apiVersion']}; "
                "--feature-gates and --runtime-config say what is served"
            )
        tree = to_stored(resource, version, copy.deepcopy(tree))
        where = tree.get("metadata", {}).get("namespace") or namespace if resource.namespaced else ""
        try:
            await self._ask().create(type_of(resource), tree, namespace=where)
        except AlreadyExists:
            await self._ask().update(type_of(resource), tree, namespace=where)


def _trees(manifests: str | Path | Tree) -> list[Tree]:
    """Return the objects of a manifest, with the items of lists as single objects."""
    if isinstance(manifests, dict):
        documents: list[Tree] = [manifests]
    else:
        is_file = isinstance(manifests, Path) or "\n" not in manifests
        text = Path(manifests).read_text() if is_file else str(manifests)
        documents = [document for document in yaml_documents(text) if document]
    return [one for document in documents for one in (document.get("items") or [document])]


def _resource(plural: str) -> Resource:
    for resource in RESOURCES:
        if plural in (resource.plural, resource.qualified):
            return resource
    raise ValueError(f"{plural}: there is no resource of that plural name")


def _resource_of(tree: Tree) -> Resource:
    kind, group = tree.get("kind"), str(tree.get("apiVersion", "")).rpartition("/")[0]
    for resource in RESOURCES:
        if (resource.kind, resource.group) == (kind, group) and resource.alias_of is None:
            return resource
    raise ValueError(f"apiVersion {tree.get('apiVersion')!r}, kind {kind!r}: there is no such resource")
