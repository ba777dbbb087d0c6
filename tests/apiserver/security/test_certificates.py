"""Keys: made once, kept private, renewed when due, good for real TLS."""

import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from dray.apiserver.security.certificates import Keys, write_private


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys.open(tmp_path / "keys")


def server_certificate(keys: Keys) -> x509.Certificate:
    return x509.load_pem_x509_certificate(keys.certificate_file.read_bytes())


def names(certificate: x509.Certificate) -> set[str]:
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in found}


def test_second_start_finds_what_the_first_made(keys: Keys) -> None:
    again = Keys.open(keys.directory)
    assert again.authority == keys.authority
    assert again.signing_key == keys.signing_key
    assert again.admin_token == keys.admin_token
    assert server_certificate(again) == server_certificate(keys)


def test_only_the_owner_can_read(keys: Keys) -> None:
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in keys.directory.iterdir()} == {0o600}


def test_server_certificate_names_every_way_to_the_server(keys: Keys) -> None:
    assert {"localhost", "127.0.0.1", "::1", "kubernetes.default.svc"} <= names(server_certificate(keys))


def test_new_host_renews_the_certificate_and_keeps_the_authority(keys: Keys) -> None:
    again = Keys.open(keys.directory, hosts=["dray.example.com", "10.0.0.7"])
    assert {"dray.example.com", "10.0.0.7", "localhost"} <= names(server_certificate(again))
    assert again.authority == keys.authority


@pytest.mark.parametrize(("days", "renewed"), [(300, False), (340, True), (1000, True)])
def test_certificate_is_renewed_a_month_before_its_end(keys: Keys, days: int, renewed: bool) -> None:
    before = server_certificate(keys)
    again = Keys.open(keys.directory, now=datetime.now(UTC) + timedelta(days=days))
    assert (server_certificate(again) != before) is renewed


@pytest.mark.parametrize("lost", ["ca.crt", "ca.key", "server.key", "server.crt"])
def test_interrupted_start_is_finished_by_the_next(keys: Keys, lost: str) -> None:
    (keys.directory / lost).unlink()
    again = Keys.open(keys.directory)
    context = ssl.create_default_context(cafile=str(again.authority_file))
    context.load_cert_chain(again.certificate_file, again.key_file)
    server_certificate(again).verify_directly_issued_by(x509.load_pem_x509_certificate(again.authority))


def test_client_certificate_carries_user_and_groups(keys: Keys) -> None:
    pair = keys.client("system:node:n1", ["system:nodes", "more"])
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert [a.value for a in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["system:node:n1"]
    organizations = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert {a.value for a in organizations} == {"system:nodes", "more"}
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(keys.authority))


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    write_private(file, b"old")

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_private(file, b"new")
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_restart_does_not_import_cryptography(keys: Keys) -> None:
    code = (
        "import sys; from dray.apiserver.security.certificates import Keys; "
        f"Keys.open({str(keys.directory)!r}); sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
