"""Makes what two machines need to trust each other for one copy: a certificate, its key, a word."""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from stellwerk.drivers.agents.hub_copying import Way

HOLDS = timedelta(days=2)
CLOCKS_DIFFER = timedelta(days=2)
"""Clocks in a room may be wrong: it is the key that counts."""


def make_way(addresses: Sequence[str], now_ms: int) -> Way | None:
    """For a machine with these addresses; None where the library for it isn't there."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:  # it comes with the extra for SSH
        return None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stellwerk copy")])
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + CLOCKS_DIFFER + HOLDS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(
        encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shown = certificate.public_bytes(encoding).decode("ascii")
    return Way(shown, private.decode("ascii"), secrets.token_hex(32), addresses)
