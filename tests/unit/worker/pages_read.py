"""Pages that are read: by a worker, or one alone."""

import asyncio

from tests.kit.config import Spider
from tests.kit.requests import (
    Body,
    Claim,
    Entry,
    LeasedRequest,
    Page,
    Request,
)
from tests.kit.worker import Parser
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.memory import DOCS, START
from tests.kit.worlds.worker import QuietSession

URL = "https://example.org/a"
PLAIN = Spider(executor="lines")
#: Of each line no more than five letters.
STRICT = Spider(executor="lines", schema={"properties": {"line": {"maxLength": 5}}})


class Parts:
    """The world's store; ``before`` is called with the number of each part, from 1."""

    def __init__(self, world, before=lambda number: None):
        self._store, self._before = world.store, before
        self.parts = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def store_part(self, queue_key, biz, claim, records, now):
        self._before(len(self.parts) + 1)
        self.parts.append(len(records))
        return self._store.store_part(queue_key, biz, claim, records, now)


def submitted(world, rule="list", url=URL):
    [an_id] = worlds.submitted(world, url, rule=rule)
    return an_id


def work(world, answer, worker="w", **changes):
    return worlds.work(world, {URL: answer}, worker, **changes)


def lines(count):
    return "\n".join(f"line {number}" for number in range(count)).encode()


def records(world, request_id):
    found = world.store.records(DOCS, world.biz, request_id=request_id, after=None, limit=9_999)
    return {record.index: record.fields["line"] for record in found}


def leased_by(world, reader, reader_name="list"):
    asked = Body(url=URL, rule=reader_name, rule_version=reader.version, depth=3)
    request = Request(id=7, tenant="default", biz="docs", queued_at=START, body=asked)
    claim = Claim(request=request, entry=Entry(7, "docs", 1), token="t", attempt=1)
    return LeasedRequest(DOCS, world.biz, claim, reader)


def read(
    world,
    reader,
    body=b"",
    *,
    status=200,
    reader_name="list",
    limits=None,
    **changes,
):
    """Read one page, alone; the outcome, what was leased, and the session."""
    leased = leased_by(world, reader, reader_name)
    session = QuietSession(world.work({}, **changes), "w")
    whole = Parser(session, **(limits or {}))
    page = Page(url=URL, status=status, headers={}, body=body)
    return asyncio.run(whole.read(leased, reader, page)), leased, session
