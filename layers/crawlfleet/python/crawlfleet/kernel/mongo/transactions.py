"""Transactions of a node's replica set."""

from collections.abc import Callable
from typing import Final, TypeVar

from pymongo import MongoClient
from pymongo.client_session import ClientSession

from crawlfleet.kernel.mongo.connection import MAJORITY, Document

T = TypeVar("T")

#: A transaction that keeps meeting other writers is given up, and tried again by its caller.
TRANSACTION_SECONDS: Final = 15.0


class MetAnotherError(Exception):
    """Another transaction made the same document at the same moment: undo, and do it again."""


def in_transaction(client: MongoClient[Document], write: Callable[[ClientSession], T]) -> T:
    """Do ``write`` in one transaction, as often as it takes to meet no other writer."""
    with client.start_session() as session:
        return in_session(session, write)


def in_session(session: ClientSession, write: Callable[[ClientSession], T]) -> T:
    """The same in a session that goes on.

    The server undoes what an earlier transaction of the session has left open before it begins.
    """
    while True:
        try:
            result: T = session.with_transaction(write, write_concern=MAJORITY)
        except MetAnotherError:
            continue
        return result
