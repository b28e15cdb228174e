"""Readers of streams are there while they are wanted, and none is left behind."""

import os
import signal

import pymongo

from infra.local.stream_readers import StreamReaders, wants_readers
from tests.waiting import eventually

PROGRAM = ("-c", "import os, signal; print(os.getpid(), flush=True); signal.pause()")


def started(log):
    """The processes that have begun so far."""
    lines = log.read_text().split("\n") if log.exists() else [""]
    return [int(line) for line in lines[:-1]]


def is_gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_they_are_there_while_they_are_wanted_and_begin_again_when_they_have_ended(tmp_path):
    wanted, log = [True], tmp_path / "streams.log"
    readers = StreamReaders(os.environ, log, lambda: bool(wanted), count=2, program=PROGRAM)
    readers.start()
    try:
        eventually(lambda: len(started(log)) == 2)
        os.kill(started(log)[0], signal.SIGKILL)
        eventually(lambda: len(started(log)) == 3)
        eventually(lambda: readers.running == 2)
        wanted.clear()
        eventually(lambda: all(map(is_gone, started(log))))
        wanted.append(True)
        eventually(lambda: len(started(log)) == 5)
    finally:
        readers.stop()

    assert readers.running == 0
    assert all(map(is_gone, started(log)))


def test_those_that_were_never_started_can_be_stopped(tmp_path):
    readers = StreamReaders(os.environ, tmp_path / "log", lambda: True, program=PROGRAM)

    readers.stop()

    assert readers.running == 0


def test_a_store_that_does_not_answer_leaves_them_as_they_are(tmp_path):
    answers, log, asked = [True], tmp_path / "streams.log", []

    def is_wanted():
        asked.append(1)
        if not answers:
            raise pymongo.errors.AutoReconnect("away")
        return True

    readers = StreamReaders(os.environ, log, is_wanted, program=PROGRAM)
    readers.start()
    try:
        eventually(lambda: len(started(log)) == 1)
        answers.clear()
        before = len(asked)
        eventually(lambda: len(asked) > before + 1)
        assert readers.running == 1
    finally:
        readers.stop()


def test_they_are_wanted_where_somebody_subscribes(mongo_uri, tenant):
    database = f"control_{tenant}"

    with pymongo.MongoClient(mongo_uri) as client:
        is_wanted = wants_readers(client, database)
        assert not is_wanted()
        client[database]["subscriptions"].insert_one({"_id": "a", "ended_at": None})
        assert is_wanted()
        client[database]["subscriptions"].update_one({"_id": "a"}, {"$set": {"ended_at": 1}})
        assert not is_wanted()
        client.drop_database(database)
