"""Certificates, and a TLS end for a Redis that speaks none, as ElastiCache has in front of it."""

import asyncio
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK = "127.0.0.1"


class Authority:
    """Signs certificates; ``file`` is what a client trusts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign("authority", self._key.public_key(), (), timedelta(hours=1))
        self.file = folder / "authority.pem"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def server_context(self, address: str) -> ssl.SSLContext:
        """A server's side of TLS, with a certificate for the address."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certify(address))
        return context

    def certify(self, *addresses: str, lasts: timedelta = timedelta(hours=1)) -> Path:
        """Write a certificate for names and addresses, with its key, to one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign("server", key.public_key(), addresses, lasts)
        file = self._folder / f"{addresses[0]}.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePublicKey,
        addresses: tuple[str, ...],
        lasts: timedelta,
    ) -> x509.Certificate:
        authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(authority)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + lasts)
            .add_extension(x509.BasicConstraints(not addresses, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if not addresses:
            usage = x509.KeyUsage(*(False,) * 5, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        else:
            names = x509.SubjectAlternativeName([_general(address) for address in addresses])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _general(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


@contextmanager
def tls_end(context: ssl.SSLContext, host: str, port: int) -> Iterator[int]:
    """A loopback port that takes TLS and passes what is in it on; yields its number."""
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever, daemon=True)
    runner.start()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind_reader, behind_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, behind_writer), copy(behind_reader, writer))

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(serve, LOOPBACK, 0, ssl=context)

    async def end(server: asyncio.Server) -> None:
        server.close()
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    server = asyncio.run_coroutine_threadsafe(listen(), loop).result(60)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(end(server), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        runner.join(60)
        loop.close()


def write_certificate(file: Path, name: str) -> Path:
    """Write a certificate for ``name`` that vouches for itself, and its key, to one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + built.public_bytes(serialization.Encoding.PEM)
    )
    return file
