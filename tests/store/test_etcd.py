"""What only the etcd log has to do: several servers, fail-over, TLS, foreign writers, lost answers."""

import asyncio
import datetime
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from ipaddress import ip_address
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from dray.store import (
    Cache,
    CommitTooLarge,
    EtcdLog,
    EtcdTls,
    Op,
    RevisionConflict,
    RevisionExpired,
    StoreError,
    Unavailable,
    etcd_client,
    open_log,
)
from dray.store import etcd_pb2 as pb
from dray.store.etcd_client import PUT, TXN, EtcdClient
from dray.store.etcd_revisions import LAST, with_position, without_position
from dray.store.log import Batch
from tests.store.etcd_process import Etcd
from tests.waiting import SECONDS, eventually, within

OpenCache = Callable[..., Awaitable[Cache]]


@pytest.fixture
def prefix() -> str:
    return f"/{uuid.uuid4()}/"


@pytest.fixture
async def logs(etcd: Etcd, prefix: str) -> AsyncIterator[list[EtcdLog]]:
    """Two servers' logs on one etcd."""
    opened = [await EtcdLog.open([etcd.endpoint], prefix=prefix) for _ in range(2)]
    yield opened
    for log in opened:
        await log.close()


@pytest.fixture
def own_etcd(tmp_path: Path) -> Iterator[Etcd]:
    """An etcd that the test may kill."""
    server = Etcd(tmp_path)
    server.start()
    yield server
    server.kill()


async def test_two_caches_see_each_others_writes(logs: list[EtcdLog], open_cache: OpenCache) -> None:
    one, two = [await open_cache(log) for log in logs]
    revision = await one.commit([Op("pods/a", b"1", 0)])
    await two.wait_for(revision, timeout=SECONDS)
    version = two.get("pods/a")
    assert version is not None
    assert (version.value, version.revision) == (b"1", revision)
    await two.commit([Op("pods/a", b"2", revision)])
    with pytest.raises(RevisionConflict):
        await one.commit([Op("pods/a", b"3", revision)])
    await one.read(timeout=SECONDS)
    seen = one.get("pods/a")
    assert seen is not None
    assert seen.value == b"2"


async def test_a_watcher_that_moves_between_servers_misses_and_repeats_nothing(
    logs: list[EtcdLog], open_cache: OpenCache
) -> None:
    caches = [await open_cache(log) for log in logs]
    start = caches[0].revision

    async def write() -> list[int]:
        return [await caches[n % 2].commit([Op(f"pods/{n % 7}", str(n).encode())]) for n in range(200)]

    async def wander() -> list[int]:
        seen: list[int] = []
        after = start
        while len(seen) < 200:
            server = caches[len(seen) % 2]
            watch = server.watch("pods/", after)
            events = await watch.next(timeout=SECONDS)
            assert events
            for event in events[:5]:  # the connection breaks in the middle of a batch
                seen.append(event.revision)
                after = event.revision
            watch.close()
        return seen

    seen, written = await asyncio.gather(wander(), write())
    assert seen == written


async def test_a_consistent_read_is_not_held_up_by_foreign_writes(
    etcd: Etcd, logs: list[EtcdLog], open_cache: OpenCache
) -> None:
    cache = await open_cache(logs[0])
    foreign = EtcdClient([etcd.endpoint])
    for _ in range(3):
        answer, _ = await foreign.call(PUT, pb.PutRequest(key=b"/foreign", value=b"x"))
        assert await cache.read(timeout=SECONDS) >= answer.header.revision
    await foreign.close()
    assert [version.key for version in cache.list("").versions] == []


async def test_a_cache_survives_the_restart_of_etcd(own_etcd: Etcd, open_cache: OpenCache) -> None:
    log = await EtcdLog.open([own_etcd.endpoint], patience=1)
    cache = await open_cache(log)
    watch = cache.watch("pods/", cache.revision)
    await cache.commit([Op("pods/a", b"1")])
    own_etcd.kill()
    with pytest.raises(Unavailable):
        await cache.commit([Op("pods/b", b"1")])
    assert cache.get("pods/a") is not None
    own_etcd.start()

    async def committed() -> bool:
        try:
            return bool(await cache.commit([Op("pods/c", b"1")]))
        except Unavailable:  # it waits for a second only
            return False

    await eventually(committed)
    keys: list[str] = []
    while len(keys) < 2:
        keys += [event.key for event in await watch.next(timeout=SECONDS)]
    assert keys == ["pods/a", "pods/c"]
    await cache.close()
    await log.close()


class Interrupted(EtcdLog):
    """A log whose connection breaks with the next change and comes back when it is told to."""

    back: asyncio.Event | None = None

    async def tail(self, after: int) -> AsyncIterator[Batch]:
        async with aclosing(super().tail(after)) as tail:  # type: ignore[type-var]  # it is a generator
            async for batch in tail:
                if self.back is not None:
                    break
                yield batch
                after = batch.revision
        await self.back.wait()
        async for batch in super().tail(after):
            yield batch


async def test_a_cache_that_was_away_too_long_starts_anew(etcd: Etcd, prefix: str, open_cache: OpenCache) -> None:
    log, other = [await kind.open([etcd.endpoint], prefix=prefix) for kind in (Interrupted, EtcdLog)]
    cache = await open_cache(log)
    await cache.commit([Op("pods/a", b"1"), Op("pods/b", b"1")])
    watch = cache.watch("pods/", cache.revision)
    log.back = asyncio.Event()
    await other.commit([Op("pods/a", None), Op("pods/c", b"1")])
    with pytest.raises(Unavailable, match="the cache is behind"):
        await cache.read(timeout=0.1)
    await other.compact(await other.commit([Op("pods/d", b"1")]))
    log.back.set()
    with pytest.raises(RevisionExpired):
        await watch.next(timeout=SECONDS)
    assert [version.key for version in cache.list("pods/").versions] == ["pods/b", "pods/c", "pods/d"]
    await cache.commit([Op("pods/e", b"1")])
    assert cache.count("pods/") == 4
    await cache.close()
    await log.close()
    await other.close()


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[Etcd]]:
    """A cluster of three."""
    servers = [Etcd(tmp_path, name=name) for name in ("one", "two", "three")]
    for server in servers:
        server.join(servers)
    for server in servers:
        server.start(wait=False)
    for server in servers:
        server.wait()
    yield servers
    for server in servers:
        server.kill()


async def test_the_death_of_a_member_is_not_noticed(members: list[Etcd], open_cache: OpenCache) -> None:
    log = await EtcdLog.open([member.endpoint for member in members], patience=SECONDS)
    cache = await open_cache(log)
    watch, revisions = cache.watch("pods/", cache.revision), []
    for n in range(30):
        if n == 10:
            members[0].kill()  # the one that we talk to
        revisions.append(await cache.commit([Op(f"pods/{n}", b"1", 0)]))
    seen: list[int] = []
    while len(seen) < 30:
        seen += [event.revision for event in await watch.next(timeout=SECONDS)]
    assert seen == revisions
    await cache.close()
    await log.close()


async def test_a_dead_endpoint_is_passed_over(etcd: Etcd, prefix: str, open_cache: OpenCache) -> None:
    log = await EtcdLog.open(["127.0.0.1:1", etcd.endpoint], prefix=prefix)
    cache = await open_cache(log)
    await cache.commit([Op("pods/a", b"1")])
    assert cache.get("pods/a") is not None
    await cache.close()
    await log.close()


async def test_no_endpoint_at_all_is_reported() -> None:
    with pytest.raises(Unavailable, match=r"etcd does not answer at 127\.0\.0\.1:1"):
        await EtcdLog.open(["127.0.0.1:1"], patience=0.5)


class LosesAnswers(EtcdClient):
    """A connection that breaks after the server has done the first transaction, before its answer is here."""

    lost = False

    async def _attempt(self, chosen, method, request):  # type: ignore[no-untyped-def]  # as in EtcdClient
        answer = await super()._attempt(chosen, method, request)
        if method is TXN and not self.lost:
            self.lost = True
            nothing = grpc.aio.Metadata()
            raise grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, details="connection lost")
        return answer


@pytest.mark.parametrize("value", [b"mine", None])
async def test_a_lost_answer_is_recognised_as_our_own_work(etcd: Etcd, prefix: str, value: bytes | None) -> None:
    setup = await EtcdLog.open([etcd.endpoint], prefix=prefix)
    revision = await setup.commit([Op("pods/a", b"before")])
    log = EtcdLog(LosesAnswers([etcd.endpoint]), prefix)
    assert await log.commit([Op("pods/a", value, revision)]) == await setup.head()
    assert [v.value for v in (await log.load()).versions] == ([value] if value else [])
    await log.close()
    await setup.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The requests that are sent to etcd, by method."""
    methods: list[object] = []
    call = EtcdClient.call

    async def noting(client, method, request):  # type: ignore[no-untyped-def]  # as in EtcdClient
        methods.append(method)
        return await call(client, method, request)

    monkeypatch.setattr(EtcdClient, "call", noting)
    return methods


async def test_commits_that_come_together_travel_together(logs: list[EtcdLog], sent: list[object]) -> None:
    sent.clear()
    revisions = await asyncio.gather(*[logs[0].commit([Op(f"pods/{n}", b"", 0)]) for n in range(90)])
    assert sent == [TXN]
    assert revisions == sorted(set(revisions))
    assert {v.key: v.revision for v in (await logs[1].load()).versions} == {
        f"pods/{n}": revision for n, revision in enumerate(revisions)
    }


async def test_a_commit_of_a_batch_fails_alone(logs: list[EtcdLog]) -> None:
    there = await logs[0].commit([Op("pods/3", b"there")])
    results = await asyncio.gather(
        *[logs[0].commit([Op(f"pods/{n}", b"new", 0), Op(f"notes/{n}", b"")]) for n in range(6)], return_exceptions=True
    )
    [conflict] = [result for result in results if not isinstance(result, int)]
    assert isinstance(conflict, RevisionConflict)
    assert (conflict.key, conflict.expected, conflict.actual) == ("pods/3", 0, there)
    found = {version.key: version.value for version in (await logs[0].load()).versions}
    assert found["pods/3"] == b"there"
    assert len(found) == 11
    assert "notes/3" not in found


async def test_commits_of_one_key_keep_their_order(logs: list[EtcdLog], sent: list[object]) -> None:
    sent.clear()
    revisions = await asyncio.gather(*[logs[0].commit([Op("pods/a", str(n).encode())]) for n in range(20)])
    assert sent == [TXN] * 20, "etcd refuses a transaction that writes a key twice"
    assert revisions == sorted(set(revisions))
    assert [version.value for version in (await logs[0].load()).versions] == [b"19"]


async def test_a_batch_with_a_commit_that_is_too_large_fails_in_that_one_only(logs: list[EtcdLog]) -> None:
    large = logs[0].commit([Op(f"large/{n}", b"") for n in range(200)])
    small = [logs[0].commit([Op(f"pods/{n}", b"")]) for n in range(5)]
    refused, *done = await asyncio.gather(large, *small, return_exceptions=True)
    assert isinstance(refused, CommitTooLarge)
    assert all(isinstance(revision, int) for revision in done)


async def test_every_server_knows_each_change_of_a_batch_by_the_same_revision(
    logs: list[EtcdLog], open_cache: OpenCache
) -> None:
    """Some commits delete, some fail, some do both; one server is told by its watch, one loads everything later."""
    caches = [await open_cache(log) for log in logs]
    await asyncio.gather(*[caches[0].commit([Op(f"pods/{n}", b"old")]) for n in range(12)])
    start = await caches[1].read(timeout=SECONDS)
    commits: list[list[Op]] = [
        [Op("pods/0", None)],
        [Op("pods/1", b"\0new")],
        [Op("pods/2", None, 1), Op("pods/3", b"never")],
        [Op("pods/4", b""), Op("pods/5", None)],
        [Op("pods/6", None), Op("pods/7", None)],
        [Op("pods/8", b"new")],
    ]
    results = await asyncio.gather(*map(caches[0].commit, commits), return_exceptions=True)
    await caches[1].read(timeout=SECONDS)
    seen = []
    for cache in caches:
        events = await cache.watch("pods/", start).next(timeout=SECONDS)
        seen.append([(event.type, event.key, event.revision) for event in events])
    assert seen[0] == seen[1]
    expected = [(op.key, at) for ops, at in zip(commits, results, strict=True) for op in ops if isinstance(at, int)]
    assert [(key, revision) for _, key, revision in seen[0]] == expected
    fresh = await open_cache(await EtcdLog.open(logs[0]._client._endpoints, prefix=logs[0]._prefix.decode()))
    known = [[(v.key, v.value, v.revision) for v in cache.list("pods/").versions] for cache in (caches[0], fresh)]
    assert known[0] == known[1]


async def test_a_watcher_that_breaks_within_a_batch_misses_nothing(logs: list[EtcdLog], open_cache: OpenCache) -> None:
    one, two = [await open_cache(log) for log in logs]
    start = one.revision
    await asyncio.gather(*[one.commit([Op(f"pods/{n}", b"")]) for n in range(10)])
    await two.read(timeout=SECONDS)
    events = await one.watch("pods/", start).next(timeout=SECONDS)
    rest = await two.watch("pods/", events[3].revision).next(timeout=SECONDS)
    assert [event.key for event in [*events[:4], *rest]] == [f"pods/{n}" for n in range(10)]


async def test_a_revision_that_never_was_matches_no_key(logs: list[EtcdLog]) -> None:
    revisions = await asyncio.gather(*[logs[0].commit([Op(f"pods/{n}", b"{}")]) for n in range(3)])
    for n, revision in enumerate(revisions):
        for wrong in (revision - 1, revision + 1):
            with pytest.raises(RevisionConflict):
                await logs[0].commit([Op(f"pods/{n}", b"lost", wrong)])
        await logs[0].commit([Op(f"pods/{n}", b"right", revision)])


@given(st.binary(max_size=20), st.integers(0, LAST))
def test_a_position_is_read_as_it_was_written(value: bytes, position: int) -> None:
    assert without_position(with_position(value, position)) == (value, position)


async def test_readers_at_the_same_time_ask_etcd_once(logs: list[EtcdLog], sent: list[object]) -> None:
    revision = await logs[1].commit([Op("pods/a", b"")])
    sent.clear()
    assert set(await asyncio.gather(*[logs[0].head() for _ in range(50)])) == {revision}
    assert len(sent) == 1
    assert await logs[0].head() == revision
    assert len(sent) == 2


async def test_too_large_a_commit_is_refused_with_etcds_reason(logs: list[EtcdLog]) -> None:
    with pytest.raises(CommitTooLarge, match="too many operations"):
        await logs[0].commit([Op(f"pods/{n}", b"") for n in range(200)])


async def test_keys_with_the_same_ttl_share_leases(logs: list[EtcdLog]) -> None:
    await asyncio.gather(*[logs[0].commit([Op(f"events/{n}", b"", ttl=1000)]) for n in range(20)])
    assert len(logs[0]._leases) == 1


async def test_a_user_with_a_password_is_let_in_and_stays(tmp_path: Path, open_cache: OpenCache) -> None:
    """Tokens live for two seconds here: reads, writes and the watch go on with new ones."""
    server = Etcd(tmp_path, "--auth-token-ttl=1")
    server.start()
    for command in ("user add root:secret", "user grant-role root root", "user add dray:open", "role add writer"):
        server.control(*command.split())
    server.control("role", "grant-permission", "writer", "--prefix=true", "readwrite", "/dray/")
    server.control("user", "grant-role", "dray", "writer")
    server.control("auth", "enable")
    password = tmp_path / "password"
    password.write_text("open\n")
    url = f"etcd://{server.endpoint}?user=dray&password-file={password}"
    with pytest.raises(Unavailable, match="user name is empty"):
        await open_log(f"etcd://{server.endpoint}")
    log = await open_log(url)
    cache = await open_cache(log)
    watch = cache.watch("pods/", cache.revision)
    first = await cache.commit([Op("pods/a", b"1", 0)])
    assert [event.revision for event in await watch.next(timeout=SECONDS)] == [first]
    server.kill()  # its tokens are gone with it
    server.start(wait=False)
    second = await eventually_committed(cache, [Op("pods/a", b"2", first)])
    assert [event.revision for event in await watch.next(timeout=SECONDS)] == [second]
    password.write_text("wrong")
    with pytest.raises(Unavailable, match="authentication failed"):
        await open_log(url)
    await log.close()
    server.kill()


async def eventually_committed(cache: Cache, ops: list[Op]) -> int:
    """Commit as soon as etcd answers again."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                return await cache.commit(ops)
            except Unavailable:
                await asyncio.sleep(0.1)


async def test_prefixes_separate_clusters(etcd: Etcd, prefix: str) -> None:
    one, two = [await EtcdLog.open([etcd.endpoint], prefix=f"{prefix}{name}/") for name in ("one", "two")]
    await one.commit([Op("pods/a", b"1", 0)])
    await two.commit([Op("pods/a", b"2", 0)])
    assert [version.value for version in (await one.load()).versions] == [b"1"]
    await one.close()
    await two.close()


async def test_a_conflict_after_a_lost_answer_leaves_the_outcome_open(etcd: Etcd, prefix: str) -> None:
    setup = await EtcdLog.open([etcd.endpoint], prefix=prefix)
    revision = await setup.commit([Op("pods/a", b"before")])
    client = LosesAnswers([etcd.endpoint])
    log = EtcdLog(client, prefix)
    attempt = client.call

    async def overtaken(method, request):  # type: ignore[no-untyped-def]  # as in EtcdClient
        if method is TXN:
            await setup.commit([Op("pods/a", b"theirs")])
        return await attempt(method, request)

    client.call = overtaken  # type: ignore[method-assign]  # somebody else is quicker
    with pytest.raises(Unavailable, match="the connection was lost"):
        await log.commit([Op("pods/a", b"mine", revision)])
    await log.close()
    await setup.close()


# TLS


class Authority:
    """A certificate authority that writes PEM files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        certificate = self._sign(self._name, self._key.public_key(), constraints)
        self.file = self._write("ca.pem", certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Certificate and key for 127.0.0.1."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        certificate = self._sign(subject, key.public_key(), names)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        pem = certificate.public_bytes(serialization.Encoding.PEM)
        return self._write(f"{name}.pem", pem), self._write(f"{name}-key.pem", private)

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).add_extension(extension, critical=False)
        builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name: str, content: bytes) -> Path:
        (self._directory / name).write_bytes(content)
        return self._directory / name


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    own_cert, own_key = authority.issue("client")
    server = Etcd(
        tmp_path,
        f"--cert-file={cert}",
        f"--key-file={key}",
        f"--trusted-ca-file={authority.file}",
        "--client-cert-auth",
    )
    server.start()
    try:
        log = await open_log(f"etcd://{server.endpoint}?ca={authority.file}&cert={own_cert}&key={own_key}")
        await log.commit([Op("pods/a", b"1")])
        assert len((await log.load()).versions) == 1
        await log.close()
        with pytest.raises(Unavailable):
            await EtcdLog.open([server.endpoint], tls=EtcdTls(authority.file), patience=0.5)
        with pytest.raises(StoreError, match="cannot read"):
            await EtcdLog.open([server.endpoint], tls=EtcdTls(tmp_path / "missing.pem"))
    finally:
        server.kill()


async def test_certificates_that_are_replaced_are_used(
    tmp_path: Path, open_cache: OpenCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All certificates are replaced by those of another authority, and etcd starts again: nobody trusts the old ones."""
    monkeypatch.setattr(etcd_client, "_LOOK_SECONDS", 0.0)
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    own_cert, own_key = authority.issue("client")
    options = (f"--cert-file={cert}", f"--key-file={key}", f"--trusted-ca-file={authority.file}", "--client-cert-auth")
    server = Etcd(tmp_path, *options)
    server.start()
    log = await EtcdLog.open([server.endpoint], tls=EtcdTls(authority.file, own_cert, own_key), patience=60)
    cache = await open_cache(log)
    try:
        await cache.commit([Op("pods/a", b"1")])
        server.kill()
        other = Authority(tmp_path)
        other.issue("server")
        other.issue("client")
        server.start()
        await within(cache.commit([Op("pods/b", b"1")]))
        assert sorted(version.key for version in cache.list("pods/").versions) == ["pods/a", "pods/b"]
        own_key.write_text("half written")
        await cache.commit([Op("pods/c", b"1")])  # what is in use goes on
    finally:
        await cache.close()
        await log.close()
        server.kill()


async def fill(log: EtcdLog) -> None:
    for number in range(100):
        await log.commit([Op(f"k{number}", b"x" * 100_000)])


async def test_a_probe_fails_while_etcd_has_no_space(tmp_path: Path) -> None:
    server = Etcd(tmp_path, "--quota-backend-bytes=200000")
    server.start()
    log = await EtcdLog.open([server.endpoint])
    try:
        await log.probe()
        with pytest.raises(StoreError, match="space"):
            await fill(log)
        await log.head()  # it can be read
        with pytest.raises(StoreError, match="space"):
            await log.probe()
    finally:
        await log.close()
        server.kill()
