"""The size of a tenant's documents in MongoDB, which the server knows of each database."""

from collections.abc import Iterable

from crawlfleet.kernel.mongo.connection import MongoNodes, border


class MongoSizes:
    """Measure databases. A tenant's are its own, with requests, records, seeds and visits."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def of(self, tenant: str, databases: Iterable[tuple[str, str]]) -> tuple[int, int]:
        """Return the bytes and the number of the documents in (node, database).

        By the server's own account, which reads no document. After an unclean end of a server it
        may be off by what was written in the last minute.
        """
        size = count = 0
        for node, name in sorted(set(databases)):
            with border():
                stats = self._nodes.database(node, tenant, name).command("dbStats")
            size += int(stats["dataSize"])
            count += int(stats["objects"])
        return size, count
