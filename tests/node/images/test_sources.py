"""Images from layouts, archives and registries, real and made up."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from dray.node.images.archives import Archives, FoundImage
from dray.node.images.library import Library
from dray.node.images.manifest import ImageError
from dray.node.images.reference import ImageName
from dray.node.images.registry import Credential, Registries
from tests.node.images.imaging import Layout, layer
from tests.ports import free_port
from tests.waiting import eventually

FILES = {"bin/": "", "bin/app": b"program"}


def unpacked(root: Path, found: FoundImage | str | None) -> list[str]:
    assert isinstance(found, FoundImage)
    stored = Library(root).add(found)
    return sorted(str(path.relative_to(stored.rootfs)) for path in stored.rootfs.rglob("*"))


@pytest.mark.parametrize(
    ("place", "named", "image", "there"),
    [
        ("any", "example.com/app:1.0", "example.com/app:1.0", True),
        ("any", "example.com/app:1.0", "example.com/app:2.0", False),
        ("example.com/app", "1.0", "example.com/app:1.0", True),
        ("app", "1.0", "app:1.0", True),
        ("app", "1.0", "example.com/app:1.0", True),
        ("other", "1.0", "app:1.0", False),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_layouts_and_archives_of_them(
    tmp_path: Path, place: str, named: str, image: str, there: bool, packed: bool
) -> None:
    layout = Layout(tmp_path / "images" / place)
    digest = layout.add(named, [layer(FILES)])
    if packed:
        with tarfile.open(f"{layout.directory}.tar", "w") as archive:
            for entry in layout.directory.iterdir():
                archive.add(entry, entry.name)
        shutil.rmtree(layout.directory)
    archives = Archives([tmp_path / "images"])
    found = archives.find(ImageName.parse(image))
    assert (found is not None) == there
    if there:
        assert unpacked(tmp_path / "library", found) == ["bin", "bin/app"]
        by_digest = archives.find(ImageName.parse(f"{image.partition(':')[0]}@{digest}"))
        assert by_digest is not None


def test_a_layout_whose_blobs_are_not_what_they_say_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images/app")
    layout.add("1", [layer(FILES)])
    for blob in (layout.directory / "blobs/sha256").iterdir():
        data = blob.read_bytes()
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(ImageError, match="sha256:"):
            unpacked(tmp_path / "library", Archives([tmp_path / "images"]).find(ImageName.parse("app:1")))
        assert not [*tmp_path.glob("library/*")]
        blob.write_bytes(data)


def test_layers_that_do_not_fit_the_configuration_are_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images/app")
    layout.add("few", [layer(FILES)], diff_ids=[])
    layout.add("wrong", [layer(FILES)], diff_ids=["sha256:" + "0" * 64])
    for tag, text in (("few", "1 layers, but 0 in the configuration"), ("wrong", "the uncompressed digest is")):
        with pytest.raises(ImageError, match=text):
            unpacked(tmp_path / "library", Archives([tmp_path / "images"]).find(ImageName.parse(f"app:{tag}")))
    assert os.listdir(tmp_path / "library") == []


def test_archives_that_are_none_are_passed_over_or_refused(tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    with tarfile.open(images / "empty.tar", "w"):
        pass
    assert Archives([images]).find(ImageName.parse("app:1")) is None
    (images / "noise.tar").write_bytes(b"noise" * 1000)
    with pytest.raises(ImageError, match=r"noise\.tar"):
        Archives([images]).find(ImageName.parse("app:1"))


# Registries


class MadeUpRegistry:
    """Serves one image, to those that may have it."""

    def __init__(self, layout: Layout, manifest: str, kind: str) -> None:
        self._layout = layout
        self._manifest = manifest
        self._kind = kind
        self.url = ""
        self.spoil = b""
        self.asked: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/token", self._token)
        app.router.add_get("/v2/team/app/{kind}/{reference}", self._blob)
        return app

    async def _token(self, request: web.Request) -> web.Response:
        wanted = base64.b64encode(b"me:secret").decode()
        if request.query["scope"] != "repository:team/app:pull" or request.query["service"] != "made-up":
            return web.Response(status=400)
        if self._kind == "token" and request.headers.get("Authorization") != f"Basic {wanted}":
            return web.Response(status=401)
        return web.json_response({"token": "granted"})

    def _may(self, request: web.Request) -> bool:
        given = request.headers.get("Authorization", "")
        basic = f"Basic {base64.b64encode(b'me:secret').decode()}"
        return {"open": True, "basic": given == basic}.get(self._kind, given == "Bearer granted")

    async def _blob(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if not self._may(request):
            scope = f'Bearer realm="{self.url}/token",service="made-up",scope="repository:team/app:pull"'
            return web.Response(
                status=401, headers={"WWW-Authenticate": 'Basic realm="x"' if self._kind == "basic" else scope}
            )
        reference = request.match_info["reference"]
        if reference not in ("1.0", self._manifest) and not reference.startswith("sha256:"):
            return web.Response(status=404)
        name = self._manifest if request.match_info["kind"] == "manifests" else reference
        data = (self._layout.directory / "blobs/sha256" / name[7:]).read_bytes()
        kind = "application/vnd.oci.image.manifest.v1+json" if name == self._manifest else "application/octet-stream"
        return web.Response(body=data + self.spoil, content_type=kind)


@pytest.fixture
async def registry(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MadeUpRegistry]:
    layout = Layout(tmp_path / "source")
    made_up = MadeUpRegistry(layout, layout.add("1.0", [layer(FILES)]), request.param)
    runner = web.AppRunner(made_up.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made_up.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    (tmp_path / "down").mkdir()
    yield made_up
    await runner.cleanup()


@pytest.mark.parametrize("registry", ["open", "anonymous token", "token", "basic"], indirect=True)
async def test_registries_ask_for_what_they_want(registry: MadeUpRegistry, tmp_path: Path) -> None:
    registries = Registries({"example.com": registry.url})
    name = ImageName.parse("example.com/team/app:1.0")
    found = await registries.pull(name, [Credential("me", "secret")], tmp_path / "down")
    assert unpacked(tmp_path / "library", found) == ["bin", "bin/app"]
    assert isinstance(found, FoundImage)
    again = await registries.pull(name, [Credential("me", "secret")], tmp_path / "down", [found.digest])
    assert again == found.digest


@pytest.mark.parametrize("registry", ["token", "basic"], indirect=True)
async def test_somebody_else_is_denied(registry: MadeUpRegistry, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match="pull access denied, repository does not exist or may require authorization"):
        await Registries({"example.com": registry.url}).pull(
            ImageName.parse("example.com/team/app:1.0"), [Credential("me", "wrong")], tmp_path / "down"
        )


@pytest.mark.parametrize("registry", ["open"], indirect=True)
async def test_what_a_registry_gets_wrong_is_named(registry: MadeUpRegistry, tmp_path: Path) -> None:
    registries = Registries({"example.com": registry.url, "gone.example.com": f"http://127.0.0.1:{free_port()}"})
    down = tmp_path / "down"
    with pytest.raises(ImageError, match=r"example.com/team/app:2.0: not found"):
        await registries.pull(ImageName.parse("example.com/team/app:2.0"), (), down)
    with pytest.raises(ImageError, match="failed to do request"):
        await registries.pull(ImageName.parse("gone.example.com/team/app:1.0"), (), down)
    registry.spoil = b" "
    with pytest.raises(ImageError, match=r"is larger than|the digest"):
        await registries.pull(ImageName.parse("example.com/team/app:1.0"), (), down)
    digest = "sha256:" + "0" * 64
    with pytest.raises(ImageError, match=f"the digest is .* expected {digest}"):
        await registries.pull(ImageName.parse(f"example.com/team/app@{digest}"), (), down)


@pytest.fixture
async def real_registry(tmp_path: Path) -> AsyncIterator[str]:
    programs = [shutil.which(name) for name in ("docker-registry", "skopeo")]
    if None in programs:
        pytest.skip("docker-registry and skopeo are not installed")
    port = free_port()
    (tmp_path / "registry.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/store}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n"
    )
    process = await asyncio.create_subprocess_exec(
        "docker-registry", "serve", str(tmp_path / "registry.yml"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )

    async def up() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    await eventually(up)
    yield f"127.0.0.1:{port}"
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def skopeo(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "skopeo", "--insecure-policy", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


async def test_a_real_registry_and_real_archives(real_registry: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path / "source")
    digest = layout.add("1.0", [layer(FILES), layer({"bin/.wh.app": b"", "etc/": ""})])
    await skopeo(
        "copy", "--dest-tls-verify=false", f"oci:{layout.directory}:1.0", f"docker://{real_registry}/team/app:1.0"
    )
    (tmp_path / "down").mkdir()
    found = await Registries({"*": ""}).pull(ImageName.parse(f"{real_registry}/team/app:1.0"), (), tmp_path / "down")
    assert unpacked(tmp_path / "library", found) == ["bin", "etc"]
    assert isinstance(found, FoundImage)
    assert found.digest == digest
    archives = tmp_path / "archives"
    archives.mkdir()
    for kind, name in (("docker-archive", "saved"), ("oci-archive", "packed")):
        await skopeo("copy", f"oci:{layout.directory}:1.0", f"{kind}:{archives}/{name}.tar:example.com/{name}:2")
        local = Archives([archives]).find(ImageName.parse(f"example.com/{name}:2"))
        assert unpacked(tmp_path / f"library-{name}", local) == ["bin", "etc"]


def test_names_are_kept_and_what_was_half_done_goes(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "images/app")
    layout.add("1", [layer(FILES)])
    found = Archives([tmp_path / "images"]).find(ImageName.parse("app:1"))
    assert found is not None
    library = Library(tmp_path / "library")
    library.remember("app:1", library.add(found).digest)
    (tmp_path / "library" / ".new-left").mkdir()
    again = Library(tmp_path / "library")
    stored = again.named("app:1")
    assert stored is not None
    assert json.loads(found.config)["os"] == "linux"
    assert sorted(os.listdir(tmp_path / "library")) == ["names.json", stored.digest.replace(":", "-")]
