"""Transactions that a killed worker has left open."""

import threading
import time

import pymongo
import pytest
from pymongo.monitoring import CommandListener

from tests.kit.mongo import (
    APP_NAME,
    LEFT_ALONE,
    border,
    end_abandoned,
    in_transaction,
)
from tests.waiting import eventually


@pytest.fixture
def client(mongo_uri):
    with pymongo.MongoClient(mongo_uri, appname=APP_NAME) as made:
        yield made


def is_ended(client, documents):
    """End what is left, of other tests too; tell whether the document is nobody's any more."""
    end_abandoned(client)
    try:
        with pymongo.timeout(0.2):
            documents.update_one({"_id": 1}, {"$set": {"seen": True}})
    except pymongo.errors.PyMongoError:
        return False
    return True


def test_one_that_was_left_is_ended_and_its_documents_are_free(client, tenant):
    documents = client[f"cf_{tenant}_x"]["requests"]
    documents.insert_one({"_id": 1})
    left = client.start_session()
    left.start_transaction()
    began = time.monotonic()
    documents.update_one({"_id": 1}, {"$set": {"by": "the dead"}}, session=left)

    eventually(lambda: is_ended(client, documents), what="it is found")
    assert time.monotonic() - began >= LEFT_ALONE.total_seconds() / 2, "not before its time"

    assert documents.update_one({"_id": 1}, {"$set": {"by": "another"}}).modified_count == 1
    with pytest.raises(pymongo.errors.OperationFailure):
        left.commit_transaction()
    assert documents.find_one({"_id": 1})["by"] == "another"


def test_one_whose_client_was_only_frozen_is_done_again(client, tenant):
    documents = client[f"cf_{tenant}_x"]["requests"]
    documents.insert_one({"_id": 1, "n": 0})
    frozen, go_on, tries = threading.Event(), threading.Event(), []

    def write(session):
        tries.append(1)
        documents.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)
        if len(tries) == 1:
            frozen.set()
            go_on.wait(60)

    worker = threading.Thread(target=in_transaction, args=(client, write))
    worker.start()
    frozen.wait(60)
    eventually(lambda: is_ended(client, documents), what="it is taken for left")
    go_on.set()
    worker.join(60)

    assert len(tries) == 2
    assert documents.find_one({"_id": 1})["n"] == 1


class Endings(CommandListener):
    """The ends of sessions that a client asks for."""

    def __init__(self):
        self.count = 0

    def started(self, event):
        self.count += event.command_name == "killSessions"

    def succeeded(self, event): ...

    def failed(self, event): ...


def test_a_transaction_that_is_kept_out_by_one_that_was_left_ends_it(
    mongo_uri, tenant, monkeypatch
):
    # Under this name no other test ends what is left here.
    name = f"{APP_NAME}-{tenant}"
    monkeypatch.setattr("crawlfleet.kernel.mongo.connection.APP_NAME", name)
    endings = Endings()
    with pymongo.MongoClient(mongo_uri, appname=name, event_listeners=[endings]) as client:
        documents = client[f"cf_{tenant}_x"]["counts"]
        documents.insert_one({"_id": 1, "n": 0})
        left = client.start_session()
        left.start_transaction()
        documents.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=left)

        def write(session):
            documents.update_one({"_id": 1}, {"$inc": {"n": 10}}, session=session)

        # Nobody else knows of the dead, as where Redis was lost with it: the server would keep what
        # it has left for a minute, and end it by itself.
        with border(120.0):
            in_transaction(client, write)

        assert endings.count
        assert documents.find_one({"_id": 1})["n"] == 10
        with pytest.raises(pymongo.errors.OperationFailure):
            left.commit_transaction()


def test_where_there_is_none_nothing_is_ended(client):
    eventually(lambda: end_abandoned(client) == 0, what="none of an earlier test is left")
