"""Certificates of a node that expire while it is in use, and are renewed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.contract.certified_node import CertifiedNode, certified_node
from tests.contract.rotation_cases import outcomes, work
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import MongoNodes, Waits, border
from tests.waiting import eventually, in_time

#: Nothing has to be done before it expires: who is to be connected is so before it is given.
LASTS = timedelta(seconds=1)
SELECTION = 0.5


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CertifiedNode]:
    with certified_node(tmp_path) as node:
        yield node


@pytest.fixture
def nodes(server: CertifiedNode) -> Iterator[MongoNodes]:
    waits = Waits(selection=SELECTION, away=0.3)
    nodes = MongoNodes(lambda _: server.uri, lambda: "home", waits=waits)
    yield nodes
    nodes.close()


def read_slowly(nodes: MongoNodes) -> str:
    """Keep a connection for a moment; the driver tries to open more for as long as it may."""
    try:
        with border(1.0):
            things = nodes.collection("home", "t", "d", "things")
            list(things.find({"$where": "sleep(400); return true"}))
    except StoreUnavailableError as error:
        return str(error)
    return "done"


def many(nodes: MongoNodes) -> set[str]:
    """Read in more threads at a time than there were connections."""
    with ThreadPoolExecutor(6) as executor:
        return set(executor.map(lambda _: read_slowly(nodes), range(6)))


def test_a_certificate_that_expires_is_an_error_at_reconnecting_until_it_is_renewed(
    server: CertifiedNode, nodes: MongoNodes
) -> None:
    nodes.collection("home", "t", "d", "things").insert_one({})
    expires_at = server.has_certificate(LASTS)
    eventually(lambda: datetime.now(UTC) > expires_at, what="the certificate has not expired")

    # Who is connected goes on; connections beside these are refused.
    assert outcomes(nodes, 3) == ["done"] * 3
    eventually(
        lambda: many(nodes) != {"done"},
        what="the expired certificate is taken",
    )

    server.has_certificate(timedelta(hours=1))

    eventually(lambda: many(nodes) == {"done"}, what="the node is not connected to again")


def test_a_node_whose_certificate_has_expired_is_away_from_the_first_call_on(
    server: CertifiedNode, nodes: MongoNodes
) -> None:
    expires_at = server.has_certificate(LASTS)
    eventually(lambda: datetime.now(UTC) > expires_at, what="the certificate has not expired")

    with in_time(SELECTION), pytest.raises(StoreUnavailableError, match="certificate"):
        work(nodes)
    server.has_certificate(timedelta(hours=1))

    eventually(lambda: outcomes(nodes, 1) == ["done"], what="the node stays away")
