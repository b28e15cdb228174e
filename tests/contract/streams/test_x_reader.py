"""The reader of X's filtered stream, on a server written from X's documentation."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime

import pytest
from aiohttp import web

from tests.kit.streams import End, Item, RuleLimits, StreamClient, XApi, XReader, parse
from tests.kit.x_server import TOKEN, XServer
from tests.steady import steady_loops

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SECONDS = 60


@pytest.fixture(autouse=True)
def steady():
    with steady_loops():
        yield


class Reading:
    """What a reader has read, of filters that a test changes."""

    def __init__(self, server, cursor):
        self.server, self.cursor = server, cursor
        self.filters, self.items, self.withdrawn = {}, [], []
        self.dropped, self.faults, self.notes, self.pauses = {}, [], [], []
        self.may = True
        self.now = 0.0
        self.after_pause = lambda: None

    def subscribe(self, **filters):
        self.filters = {one: parse(text) for one, text in filters.items()}

    async def until(self, holds):
        """Read until something holds; each batch is accepted."""
        async with asyncio.timeout(SECONDS):
            async with aclosing(self.reader.read(self.cursor, lambda: self.may)) as batches:
                async for batch in batches:
                    self.items += batch.items
                    self.withdrawn += batch.withdrawn
                    for reason, count in batch.dropped.items():
                        self.dropped[reason] = self.dropped.get(reason, 0) + count
                    self.cursor = batch.cursor
                    found = holds(self)
                    if found is True:
                        return self
                    if found is not False:
                        await found
        return self

    @property
    def texts(self):
        return [item.seen.text for item in self.items]


@asynccontextmanager
async def reading(cursor="", limits=None, token=lambda: TOKEN, **options):
    client = StreamClient(lambda: True, lambda _: True, clock=lambda: NOW)
    async with XServer(**options) as server, client:
        found = Reading(server, cursor)

        async def at_once(seconds):
            found.pauses.append(seconds)
            found.now += seconds
            found.after_pause()
            await asyncio.sleep(0)

        async def headers():
            return {"Authorization": f"Bearer {token()}"}

        async def is_mended(error):
            return False

        api = XApi(client, server.base, headers, clock=lambda: NOW, user_agent="Crawlfleet")
        found.reader = XReader(
            "x",
            api,
            lambda: found.filters,
            limits or RuleLimits(),
            is_mended,
            clock=lambda: NOW,
            tell=found.faults.append,
            note=found.notes.append,
            pause=at_once,
            steady=lambda: found.now,
        )
        yield found


def run(work):
    return asyncio.run(work())


def at_first(act):
    """Do something with the first batch, then read on until ``holds``."""
    done = []

    def once(found, holds):
        if not done:
            done.append(True)
            return act(found)
        return holds(found)

    return once


async def published(found, *texts):
    """Publish once the reader is connected; return when all that is wanted was read."""
    first = at_first(lambda one: one.server.publish(*texts))
    wanted = [
        text
        for text in texts
        if any(each.takes(Item(text=text)) for each in found.filters.values())
    ]
    await found.until(lambda one: first(one, lambda it: set(wanted) <= set(it.texts)))
    return found


def test_rules_are_made_first_and_posts_that_they_take_are_items():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm OR flood", b='"big storm" OR rain')
            return await published(found, "a storm", "cats", "rain again")

    found = run(work)

    assert found.server.values() == ["flood OR rain OR storm"]
    assert found.texts == ["a storm", "rain again"]
    assert found.cursor == found.items[-1].id


def test_rules_of_others_stay_and_rules_that_are_right_are_not_touched():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            await published(found, "a storm")
            found.server.rules["900"] = {"id": "900", "value": "cats", "tag": "of another"}
            await published(found, "next storm")
            return found

    found = run(work)

    assert found.server.values() == ["cats", "storm"]
    assert len(found.server.changes) == 1


def test_a_change_of_filters_changes_rules_while_the_stream_stands():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            await published(found, "a storm")
            found.faults.clear()
            connections = found.server.connections
            changed = []

            def then(one):
                if not changed:
                    changed.append(True)
                    one.subscribe(a="storm", b="flood")
                    one.now += 60
                return one.server.values() == ["flood OR storm"]

            await found.until(then)
            assert found.server.connections == connections + 1, "that of this reading"
            return found

    found = run(work)

    assert [fault.end for fault in found.faults] == []


def test_a_change_that_x_does_not_take_now_is_told_and_made_later_while_the_stream_stands():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            await published(found, "a storm")
            changed = []

            def then(one):
                if not changed:
                    changed.append(True)
                    one.server.refuse_changes = 429
                    one.subscribe(a="flood")
                    one.now += 60
                elif one.notes and one.server.refuse_changes:
                    one.server.refuse_changes = 0
                    one.now += 60
                return one.server.values() == ["flood"]

            return await found.until(then)

    found = run(work)

    assert len(found.notes) == 1
    assert "429" in found.notes[0]
    assert found.faults == []


def test_what_was_missed_between_two_connections_is_searched_for():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm", b="flood")
            await published(found, "storm 1")
            # Nobody is connected now.
            await found.server.publish(*(f"storm {number}" for number in range(2, 30)), "cats")
            await found.until(lambda one: len({item.id for item in one.items}) >= 29)
            return await published(found, "flood")

    found = run(work)

    assert {item.id for item in found.items} == {
        post["id"] for post in found.server.posts if post["text"] != "cats"
    }
    assert found.server.searches[0] == "flood OR storm"
    assert found.dropped == {}


def test_a_gap_that_cannot_be_filled_is_counted_and_the_stream_is_read_on():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            await published(found, "storm 1")
            found.server.refuse_search = 429
            await found.server.publish("storm 2")
            return await published(found, "storm 3")

    found = run(work)

    assert found.texts == ["storm 1", "storm 3"]
    assert found.dropped == {"gap": 1}
    assert any("could not be searched for" in one for one in found.notes)


def test_where_another_connection_stands_it_is_waited_for_by_the_steps_of_the_documentation():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            found.server.open = 1

            found.after_pause = lambda: setattr(found.server, "open", int(len(found.pauses) < 3))
            return await published(found, "a storm")

    found = run(work)

    assert found.pauses[:3] == [60.0, 120.0, 240.0]
    assert found.faults[0].end is End.LIMITED
    assert "TooManyConnections" in found.faults[0].message


def test_an_error_in_the_stream_ends_the_connection_and_the_next_one_goes_on():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            trouble = {
                "errors": [
                    {
                        "title": "operational-disconnect",
                        "disconnect_type": "UpstreamOperationalDisconnect",
                    }
                ]
            }
            first = at_first(lambda one: one.server.say(trouble))
            await found.until(lambda one: first(one, lambda it: bool(it.faults)))
            return await published(found, "a storm")

    found = run(work)

    assert "UpstreamOperationalDisconnect" in found.faults[0].message
    assert found.texts == ["a storm"]


def test_a_stream_that_is_silent_is_connected_to_anew():
    async def silent(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.Event().wait()  # whoever hangs up ends it

    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            found.reader._stream._silent_seconds = 0.05
            found.server.keep_alive_seconds = 0.01
            found.server.script.append(silent)
            return await published_after_fault(found)

    async def published_after_fault(found):
        await found.until(lambda one: bool(one.faults))
        return found

    assert run(work).faults[0].end is End.SILENT


def test_the_token_is_sent_and_never_told():
    async def work():
        async with reading(token=lambda: "wrong-token") as found:
            found.subscribe(a="storm")

            found.after_pause = lambda: setattr(found, "may", False)
            return await found.until(lambda _: False)

    found = run(work)

    assert found.faults[0].end is End.REFUSED
    assert "401" in found.faults[0].message
    assert "wrong-token" not in str(found.faults)


def test_a_plan_without_room_takes_what_it_has_room_for_and_says_so():
    limits = RuleLimits(characters=12, rules=2)

    async def work():
        async with reading(limits=limits, most_rules=2, most_characters=12) as found:
            found.subscribe(a="storm", b="flood", c="thunder", d="hail")
            await found.until(lambda one: True)
            assert len(found.server.rules) == 2
            # What is not wanted any more makes room first.
            found.subscribe(c="thunder", d="lightning")
            await found.until(lambda one: True)
            return found

    found = run(work)

    assert found.server.values() == ["lightning", "thunder"]
    assert any("no room for" in one for one in found.notes)
    assert not any("RulesCapExceeded" in one for one in found.notes)


def test_deletions_are_withdrawals():
    async def work():
        async with reading() as found:
            found.subscribe(a="storm")
            gone = {"data": {"delete": {"tweet": {"id": "5"}}}}
            first = at_first(lambda one: one.server.say(gone))
            return await found.until(lambda one: first(one, lambda it: bool(it.withdrawn)))

    assert [one.id for one in run(work).withdrawn] == ["5"]
