"""Certificates: an authority of one's own, what it signs, and one that is thrown away with its run.

    authority ──signs──▶ server   (which hosts it may be: names and addresses)
              └─signs──▶ worker   (for mutual TLS)
    throw-away           signs itself; its certificate is handed to the workers by the rendezvous, its key to nobody

Elliptic keys (P-256). Everything is PEM, as other tools make and read it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tightwire.algebra.errors import AccessError

THROW_AWAY = "tightwire"
"""The name in a certificate that is thrown away: whoever has been handed it does not look at addresses."""

_SKEW = timedelta(minutes=5)  # clocks of several machines differ


@dataclass(frozen=True)
class Signed:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def make_authority(name: str, days: float) -> Signed:
    """A new authority; whoever has its key can make certificates that a server or a worker believes."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _done(builder, key, key)


def issue(authority: Signed, name: str, hosts: Sequence[str], days: float) -> Signed:
    """A certificate for ``name``: of a server that is found under ``hosts``, or of a worker without any."""
    parent = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise AccessError("the authority's key is not an elliptic one; tightwire keys makes its own authority")
    key = ec.generate_private_key(ec.SECP256R1())
    kinds = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
    builder = (
        _builder(_name(name), parent.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(kinds), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts or [name]]), critical=False)
    )
    return _done(builder, key, signer)


def throw_away(days: float = 30.0) -> Signed:
    """A certificate that vouches for itself, for as long as a run may last."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(THROW_AWAY)
    builder = (
        _builder(subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(THROW_AWAY)]), critical=False)
    )
    return _done(builder, key, key)


def expiry(certificate: bytes, what: str = "the certificate") -> datetime:
    """When a certificate ends."""
    try:
        return x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    except ValueError:
        raise AccessError(f"{what} is no certificate in PEM; tightwire keys makes one") from None


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:  # fmt: skip
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _SKEW)
        .not_valid_after(end)
    )


def _done(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Signed:  # fmt: skip
    made = builder.sign(signer, hashes.SHA256())
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return Signed(made.public_bytes(pem), key.private_bytes(pem, pkcs8, plain))


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=signs, crl_sign=signs, encipher_only=False, decipher_only=False,
    )  # fmt: skip
