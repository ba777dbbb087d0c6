"""Keys of a cluster: created at the first start, read at later starts.

A directory has the certificate authority, the server's certificate, the key that signs service account tokens, and
the administrator's token. Each file is written atomically and readable by its owner only; missing files are created,
so an interrupted start is completed by the next. An unusable key or token aborts the start, because requests would
fail later. Importing `cryptography` takes 0.1 s, so it is imported only to create or first check keys. Revocation is
not supported. The authority is never renewed: it lasts as long as its directory.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from dray.files import read_regular, read_text

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

AUTHORITY_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)  # a server that restarts monthly never serves an expired certificate
_NEW_KUBECONFIG = "clients then need the new kubeconfig"
BACKDATED = timedelta(minutes=5)  # tolerates clocks of clients that are late

IN_CLUSTER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


class Keys:
    """Certificates, keys and administrator token of a cluster, in one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority_file = directory / "ca.crt"
        self.certificate_file = directory / "server.crt"
        self.key_file = directory / "server.key"
        self.signing_key_file = directory / "service-accounts.key"
        self.token_file = directory / "admin.token"
        self._authority_key_file = directory / "ca.key"
        self._hosts: Sequence[str] = ()  # names and addresses in the server's certificate
        self._checked_file = directory / "keys.sha256"  # fingerprints of checked files

    @classmethod
    def open(
        cls,
        directory: Path | str,
        hosts: Sequence[str] = (),
        now: datetime | None = None,
        shared: Path | None = None,
    ) -> Keys:
        """Read the keys in a directory and create missing ones.

        Returns the keys. Raises ValueError for an unusable file. `hosts` are additional names or addresses of the
        server. The server's certificate is renewed if it lacks a host or expires soon. `shared` is the directory of
        another server of the same cluster, from which authority, signing key and token are copied.
        """
        keys = cls(Path(directory))
        _make_private(keys.directory)
        if shared is not None:
            keys._copy_shared(shared)
        keys._check_owner()
        keys._ensure_authority()
        _ensure(keys.signing_key_file, lambda: _pem(_new_key()))
        _ensure(keys.token_file, lambda: secrets.token_urlsafe(32).encode())
        keys._check_contents()
        keys._hosts = (*LOCAL_NAMES, *IN_CLUSTER_NAMES, socket.gethostname(), *hosts)
        keys.renew(now)
        return keys

    def renew(self, now: datetime | None = None) -> None:
        """Issue a new server certificate if the present one expires soon or lacks a host."""
        self._ensure_server(self._hosts, now or datetime.now(UTC))

    @cached_property
    def authority(self) -> bytes:
        """Certificate of the authority in PEM, which clients trust."""
        return read_regular(self.authority_file)

    @cached_property
    def signing_key(self) -> bytes:
        """Private key that signs service account tokens, in PEM."""
        return read_regular(self.signing_key_file)

    @cached_property
    def admin_token(self) -> str:
        """Bearer token of the administrator."""
        return read_text(self.token_file).strip()

    def client(self, name: str, groups: Sequence[str] = (), lifetime: timedelta = LIFETIME) -> KeyPair:
        """Return a new client certificate with its key, for a user name and groups.

        `lifetime` is how long the certificate is valid, from now.
        """
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        key = _new_key()
        subject = [(NameOID.ORGANIZATION_NAME, group) for group in groups] + [(NameOID.COMMON_NAME, name)]
        certificate = self._issue(subject, key, ExtendedKeyUsageOID.CLIENT_AUTH, (), datetime.now(UTC) + lifetime)
        return KeyPair(certificate, _pem(key))

    def _copy_shared(self, source: Path) -> None:
        """Copy the files that all servers of a cluster share.

        `source` is the directory of another server. Raises ValueError if this directory has other keys.
        """
        files = (self.authority_file, self._authority_key_file, self.signing_key_file, self.token_file)
        contents = {file: read_regular(source / file.name) for file in files}
        for file, content in contents.items():
            if file.exists() and read_regular(file) != content:
                raise ValueError(f"{file} differs from {source / file.name}; start with an empty directory")
        for file, content in contents.items():
            if not file.exists():
                write_private(file, content)

    def _check_owner(self) -> None:
        """Raise PermissionError if a file belongs to another user, who may have placed keys there before.

        The owner of the directory is trusted like the user of this process. Missing files are ignored.
        """
        trusted = {os.geteuid(), self.directory.stat().st_uid}
        files = (self.authority_file, self.certificate_file, self.key_file, self.signing_key_file, self.token_file)
        for file in (*files, self._authority_key_file):
            if file.exists() and file.stat().st_uid not in trusted:
                raise PermissionError(errno.EPERM, f"{file.name} in it belongs to another user", str(file))

    def _check_contents(self) -> None:
        """Raise ValueError, with instructions for repair, if authority, private keys or token are unusable."""
        files = (self._authority_key_file, self.signing_key_file, self.authority_file)
        found = "".join(_fingerprint(read_regular(file)) + "\n" for file in files).encode()
        if not self._checked_file.is_file() or read_regular(self._checked_file) != found:
            self._check_authority()
            _checked_key(self.signing_key_file, "tokens of service accounts that were issued are then invalid")
            with suppress(OSError):  # the next start checks again
                write_private(self._checked_file, found)
        token = read_regular(self.token_file).strip()
        if not token or not all(33 <= byte <= 126 for byte in token):
            raise ValueError(_repair(self.token_file, "no token", _NEW_KUBECONFIG))

    def _check_authority(self) -> None:
        """Raise ValueError unless the authority's certificate and key belong together.

        Otherwise clients would not trust certificates that this authority issues.
        """
        from cryptography import x509

        key = _checked_key(self._authority_key_file, _NEW_KUBECONFIG)
        try:
            certificate = x509.load_pem_x509_certificate(self.authority)
        except ValueError as error:
            raise ValueError(_repair(self.authority_file, "no certificate", _NEW_KUBECONFIG)) from error
        if certificate.public_key() != key.public_key():
            raise ValueError(
                f"{self.authority_file} and {self._authority_key_file.name} do not belong together; restore them, or "
                f"delete both and a new pair is made: {_NEW_KUBECONFIG}"
            )

    def _ensure_authority(self) -> None:
        """Create the authority's certificate and key unless both exist: a certificate without its key is useless."""
        if not (self.authority_file.exists() and self._authority_key_file.exists()):
            key = _new_key()
            write_private(self._authority_key_file, _pem(key))
            write_private(self.authority_file, _self_signed(key))

    def _ensure_server(self, hosts: Sequence[str], now: datetime) -> None:
        """Create or renew the server's certificate if needed. The key is kept, so that both files always match.

        Nothing changes if the certificate covers all hosts and does not expire soon.
        """
        from_before = _Notes.read(self.certificate_file) if self.key_file.exists() else None
        if from_before and from_before.serve(hosts, self.authority, now):
            return
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        _ensure(self.key_file, lambda: _pem(_new_key()))
        key = _load_key(read_regular(self.key_file))
        notes = _Notes(frozenset(hosts), now + LIFETIME, _fingerprint(self.authority))
        subject = [(NameOID.COMMON_NAME, "dray-apiserver")]
        certificate = self._issue(subject, key, ExtendedKeyUsageOID.SERVER_AUTH, hosts, notes.expires)
        write_private(self.certificate_file, notes.text() + certificate)

    def _issue(
        self,
        subject: Sequence[tuple[x509.ObjectIdentifier, str]],
        key: EllipticCurvePrivateKey,
        usage: x509.ObjectIdentifier,
        hosts: Sequence[str],
        expires: datetime,
    ) -> bytes:
        """Return a certificate in PEM, signed by the authority."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes

        issuer = x509.load_pem_x509_certificate(self.authority)
        issuer_key = _load_key(read_regular(self._authority_key_file))
        builder = (
            _builder(key, expires)
            .subject_name(x509.Name([x509.NameAttribute(kind, value) for kind, value in subject]))
            .issuer_name(issuer.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName(_names(hosts)), critical=False)
        return _certificate_pem(builder.sign(issuer_key, hashes.SHA256()))


@dataclass(frozen=True)
class _Notes:
    """Plain-text header of a server certificate: what it was issued for. Reading it needs no X.509 library."""

    hosts: frozenset[str]
    expires: datetime
    authority: str

    @classmethod
    def read(cls, file: Path) -> _Notes | None:
        """Return the header of a certificate file, or None if it is missing or malformed."""
        try:
            hosts, expires, authority = (line.split(": ", 1)[1] for line in read_text(file).splitlines()[:3])
            return cls(frozenset(hosts.split()), datetime.fromisoformat(expires), authority)
        except (OSError, ValueError, IndexError):
            return None

    def text(self) -> bytes:
        """Return the header as lines of text, encoded."""
        lines = (
            f"Hosts: {' '.join(sorted(self.hosts))}",
            f"Expires: {self.expires.isoformat()}",
            f"Authority: {self.authority}",
        )
        return "".join(line + "\n" for line in lines).encode()

    def serve(self, hosts: Sequence[str], authority: bytes, now: datetime) -> bool:
        """Return whether the certificate covers all hosts, is signed by this authority and does not expire soon."""
        fresh = self.expires - now > RENEW_BEFORE
        return fresh and self.hosts.issuperset(hosts) and self.authority == _fingerprint(authority)


def _make_private(directory: Path) -> None:
    """Create a directory that only its owner can access, or restrict an existing one.

    Raises PermissionError if it is shared. Databases and sockets are stored next to the keys.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if not stat.S_IMODE(found.st_mode) & 0o077:
        return
    if found.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, "it is shared by all users", str(directory))
    directory.chmod(0o700)


def write_private(file: Path, data: bytes) -> None:
    """Write a file that only its owner can read, atomically."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _ensure(file: Path, make: Callable[[], bytes]) -> None:
    """Write a file if it does not exist."""
    if not file.exists():
        write_private(file, make())


def _checked_key(file: Path, loss: str) -> EllipticCurvePrivateKey:
    """Return the private key in a file. Raises ValueError with instructions for repair."""
    try:
        return _load_key(read_regular(file))
    except (ValueError, TypeError) as error:  # TypeError: the key is encrypted
        raise ValueError(_repair(file, "no private key", loss)) from error


def _repair(file: Path, problem: str, loss: str) -> str:
    """Return the error message for an unusable file.

    `problem` is what is in the file, `loss` what is lost if the file is deleted.
    """
    return f"{file} holds {problem}; restore it, or delete it and a new one is made: {loss}"


def _fingerprint(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _load_key(pem: bytes) -> EllipticCurvePrivateKey:
    """Return the elliptic curve key in PEM data.

    Raises ValueError if the data has no such key, TypeError if the key is encrypted.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("expected an elliptic curve key")
    return key


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _builder(key: EllipticCurvePrivateKey, expires: datetime) -> x509.CertificateBuilder:
    """Return a certificate builder with key, serial number and validity."""
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(datetime.now(UTC), expires) - BACKDATED)
        .not_valid_after(expires)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _self_signed(key: EllipticCurvePrivateKey) -> bytes:
    """Return the certificate of a new authority in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dray")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        _builder(key, datetime.now(UTC) + AUTHORITY_LIFETIME)
        .subject_name(name)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
    )
    return _certificate_pem(builder.sign(key, hashes.SHA256()))


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_general_name(host) for host in dict.fromkeys(hosts)]


def _general_name(host: str) -> x509.GeneralName:
    """Return a host as the IP address or DNS name for a certificate."""
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
