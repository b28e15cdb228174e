"""Servers have half a minute to answer in tests that are not about it.

A machine that stands still for the product's two seconds, or whose disk is busy with somebody's
first index, is not a server that is away. Who opens a connection hands the patience in: Redis reads
it from the address, MongoDB's nodes take it as their waits.
"""

from tests.kit.mongo import Waits

_SECONDS = 30

#: What nodes are opened with; glances alone are short by themselves.
PATIENT = Waits(glance=_SECONDS)


def patient(address: str) -> str:
    """The same Redis, or cluster, with time to answer."""
    return f"{address}{'&' if '?' in address else '?'}socket_timeout={_SECONDS}"
