"""Transactions: done as often as it takes, whoever is met, and whatever the dead have left open."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from pymongo import MongoClient
from pymongo.client_session import ClientSession

from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.mongo.connection import LEFT_ALONE, MAJORITY, Document, end_abandoned

#: A transaction that keeps meeting other writers is given up, and tried again by its caller.
TRANSACTION_SECONDS: Final = 15.0
T = TypeVar("T")


class MetAnotherError(Exception):
    """Another transaction created the same document at the same moment: undo, and try again."""


def in_transaction(client: MongoClient[Document], write: Callable[[ClientSession], T]) -> T:
    """Do ``write`` in one transaction, as often as it takes to meet no other writer."""
    with client.start_session() as session:
        return in_session(session, write)


def in_session(session: ClientSession, write: Callable[[ClientSession], T]) -> T:
    """Do ``write`` in a transaction of a session that goes on.

    The server undoes what an earlier transaction of the session has left open before it begins.
    Whoever is kept out for long ends what the dead have left open: nobody else may know of them,
    and all who write the same documents would wait for a minute.
    """
    look_at = time.monotonic() + LEFT_ALONE.total_seconds()

    def begun(at: ClientSession) -> T:
        nonlocal look_at
        if time.monotonic() >= look_at:
            with suppress(StoreError):
                end_abandoned(at.client)
            look_at = time.monotonic() + LEFT_ALONE.total_seconds()
        return write(at)

    while True:
        with suppress(MetAnotherError):
            result: T = session.with_transaction(begun, write_concern=MAJORITY)
            return result
