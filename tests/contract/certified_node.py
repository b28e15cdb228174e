"""A MongoDB node reached as Atlas is: by a name, over TLS, with a certificate that may expire."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import OperationFailure

from infra.local.parts import LOOPBACK
from tests.contract.restricted_mongo import tls_mongod
from tests.kit.name_server import CLUSTER, MEMBER, name_server
from tests.kit.tls import Authority


class CertifiedNode:
    """A node that speaks TLS, reached as Atlas is, and its administrator."""

    def __init__(self, place: str, authority: Authority) -> None:
        self.place, self._authority = place, authority
        self.uri = f"mongodb+srv://{CLUSTER}/?tlsCAFile={authority.file}"
        # It stands whatever becomes of the certificate.
        self._administrator: pymongo.MongoClient[Any] = pymongo.MongoClient(
            f"mongodb://{place}/?directConnection=true&tls=true&tlsInsecure=true"
        )
        self.has_certificate(timedelta(hours=1))

    def has_certificate(self, lasts: timedelta) -> datetime:
        """Give it another certificate; return when that expires.

        The node takes none that has expired, so a slow machine is given one that lasts longer.
        """
        while True:
            # Certificates know no parts of seconds: of its last second it has none.
            expires_at = (datetime.now(UTC) + lasts).replace(microsecond=0)
            self._authority.certify(LOOPBACK, MEMBER, lasts=lasts)
            try:
                self._administrator.admin.command("rotateCertificates", 1)
                break
            except OperationFailure:
                if datetime.now(UTC) < expires_at:
                    raise
                lasts *= 2
        # In its last second it is valid yet.
        return datetime.now(UTC) + lasts + timedelta(seconds=1)

    def close(self) -> None:
        self._administrator.close()


@contextmanager
def certified_node(folder: Path) -> Iterator[CertifiedNode]:
    """A node whose certificate is valid for an hour, until it has another."""
    authority = Authority(folder)
    certificate = authority.certify(LOOPBACK, MEMBER)
    with (
        tls_mongod(certificate, authority.file, "crawlfleet") as place,
        name_server() as resolver,
    ):
        resolver.ports = [int(place.partition(":")[2])]
        node = CertifiedNode(place, authority)
        yield node
        node.close()
