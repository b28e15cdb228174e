"""The reader of JSON lines over HTTP, on a stream that misbehaves in every way that streams do."""

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from itertools import count

import pytest

from infra.local.stream_server import StreamServer, pieces, status
from tests.kit.config import Channel, ItemFields
from tests.kit.fetching import SecretTexts
from tests.kit.streams import End, NdjsonReader, StreamClient
from tests.kit.worlds.worker import until
from tests.steady import steady_loops

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SECONDS = 60


@pytest.fixture(autouse=True)
def steady():
    with steady_loops():
        yield


class Reading:
    """What a reader has read, from a server that a test scripts."""

    def __init__(self, server, reader, cursor):
        self.server, self._reader, self._cursor = server, reader, cursor
        self.items, self.withdrawn, self.faults = [], [], []
        self.dropped = {}
        self.cursor = cursor
        self.may = True

    async def until(self, holds):
        """Read until something holds; each batch is accepted."""
        async with asyncio.timeout(SECONDS):
            async with aclosing(self._reader.read(self._cursor, lambda: self.may)) as batches:
                async for batch in batches:
                    self.items += batch.items
                    self.withdrawn += batch.withdrawn
                    for reason, count in batch.dropped.items():
                        self.dropped[reason] = self.dropped.get(reason, 0) + count
                    self.cursor = batch.cursor
                    if holds(self):
                        return self
        return self

    async def get(self, count):
        return await self.until(lambda reading: len(reading.items) >= count)

    @property
    def texts(self):
        return [item.seen.text for item in self.items]


@asynccontextmanager
async def reading(
    *script,
    cursor="",
    secret=None,
    texts=None,
    allow_private=True,
    may_ask=True,
    path="",
    **options,
):
    async with StreamServer(token=options.pop("token", None)) as server:
        server.script.extend(script)
        asked = {"cursor_parameter": "since", "secret": secret} | options
        channel = Channel(kind="ndjson_stream", url=server.url + path, **asked)
        private = allow_private if callable(allow_private) else lambda: allow_private
        async with StreamClient(private, lambda _: may_ask, clock=lambda: NOW) as client:
            made = []

            async def at_once(_):
                await asyncio.sleep(0)

            def read_secret(_, name):
                return texts[name] if isinstance(texts[name], str) else texts[name].pop(0)

            reader = NdjsonReader(
                "wire",
                channel,
                client,
                SecretTexts(read_secret, clock=count(0, 20).__next__),
                clock=lambda: NOW,
                user_agent="Crawlfleet",
                filter_text="storm OR rain",
                tell=made.append,
                pause=at_once,
            )
            found = Reading(server, reader, cursor)
            found.faults = made
            yield found


def run(work):
    return asyncio.run(work())


def test_objects_are_items_in_their_order_and_the_last_one_is_the_cursor():
    async def work():
        async with reading() as found:
            await found.server.publish("one", "two", author="ann")
            await found.get(2)
            await found.server.publish("three")
            return found

    found = run(work)

    assert found.texts == ["one", "two"]
    assert [item.id for item in found.items] == ["1", "2"]
    assert {item.seen.author for item in found.items} == {"ann"}
    assert {item.channel for item in found.items} == {"wire"}
    assert found.cursor == "2"


def test_it_goes_on_behind_the_cursor_also_after_it_was_cut_off_within_a_line():
    async def work():
        cut = pieces(b'{"id": 3, "text": "three"}\n{"id": 4, "te', cut=True)
        async with reading(cut, cursor="2") as found:
            await found.server.publish("one", "two", "three", "four", "five")
            return await found.get(3)

    found = run(work)

    assert found.texts == ["three", "four", "five"]
    assert found.dropped == {}


def test_a_stream_that_ends_is_connected_to_again_and_its_last_line_needs_no_end():
    async def work():
        async with reading(pieces(b'{"id": 1, "text": "one"}')) as found:
            await found.server.publish("one", "two")
            return await found.get(2)

    found = run(work)

    assert found.texts == ["one", "two"]
    assert [(fault.end, fault.pause_seconds) for fault in found.faults] == [(End.ENDED, 0.0)]


def test_a_line_in_many_pieces_is_one():
    async def work():
        line = '{"id": 1, "text": "Überschwemmung"}\r\n'.encode()
        slow = pieces(*(line[at : at + 1] for at in range(len(line))))
        async with reading(slow) as found:
            return await found.get(1)

    assert run(work).texts == ["Überschwemmung"]


def test_garbage_and_giant_lines_are_dropped_by_reason_and_what_follows_is_read():
    async def work():
        lines = [
            b"\xff\xfe\x00",
            b"<html>sign in</html>",
            b"[1, 2]",
            b'{"text": "nameless"}',
            b'{"id": true, "text": "no name either"}',
            b'{"id": 1, "deep": ' + b'{"a":' * 80 + b"1" + b"}" * 81,
            b'{"id": 2, "text": "' + b"x" * 2_000 + b'"}',
            b"[" * 900,
            b'{"id": 3, "text": "whole", "big": 99999999999999999999}',
        ]
        async with reading(pieces(b"\n".join(lines) + b"\n"), max_line_bytes=1_000) as found:
            return await found.get(1)

    found = run(work)

    assert found.texts == ["whole"]
    assert found.items[0].fields["big"] == "99999999999999999999"
    assert found.dropped == {"not_json": 3, "no_object": 1, "no_id": 2, "unfit": 1, "too_long": 1}


def test_more_objects_than_a_batch_takes_come_in_several_each_with_its_cursor():
    async def work():
        lines = b"".join(b'{"id": %d}\n' % number for number in range(1, 1_201))
        async with reading(pieces(lines)) as found:
            sizes = []

            def is_read(so_far):
                sizes.append((len(so_far.items), so_far.cursor))
                return len(so_far.items) >= 1_200

            await found.until(is_read)
            return sizes

    assert all(int(cursor or 0) == count for count, cursor in run(work))


def test_an_object_may_only_say_how_far_the_stream_has_come_or_take_an_item_back():
    async def work():
        said = b'{"at": "c7"}\n{"delete": {"id": 5}, "at": "c8"}\n'
        fields = ItemFields(cursor="at", withdrawn="delete.id")
        async with reading(pieces(said), fields=fields) as found:
            return await found.until(lambda it: it.cursor == "c8")

    found = run(work)

    assert (found.items, found.dropped) == ([], {})
    assert [(each.id, each.channel) for each in found.withdrawn] == [("5", "wire")]


def test_a_silent_stream_is_connected_to_again():
    async def work():
        async with reading(pieces(silent=True), silent_seconds=1.0) as found:
            await found.server.publish("one")
            return await found.get(1)

    assert [fault.end for fault in run(work).faults] == [End.SILENT]


def test_keep_alives_say_that_the_stream_is_there():
    async def work():
        async with reading() as found:
            seen = []
            await found.until(lambda _: seen.append(1) or len(seen) == 3)
            return found

    found = run(work)

    assert (found.items, found.faults, len(found.server.asked)) == ([], [], 1)


def test_too_many_requests_and_faults_are_waited_out_by_their_steps():
    async def work():
        script = [
            status(429),
            status(429, Retry_After="200"),
            status(503, Retry_After="7"),
            status(500),
            status(404),
            pieces(cut=True),
        ]
        async with reading(*script) as found:
            await found.server.publish("one")
            return await found.get(1)

    faults = run(work).faults

    assert [(fault.end, fault.pause_seconds) for fault in faults] == [
        (End.LIMITED, 60.0),
        (End.LIMITED, 200.0),
        (End.HTTP, 7.0),
        (End.HTTP, 10.0),
        (End.HTTP, 20.0),
        (faults[-1].end, 0.0 if faults[-1].end is End.ENDED else 0.25),
    ]
    assert faults[0].message == "answered 429"


@pytest.mark.parametrize(
    "place", ["http://169.254.169.254/latest", "http://[::1]:9/", "file:///etc"]
)
def test_a_redirect_to_a_private_address_is_refused_when_it_is_connected_to(place):
    async def work():
        public = []

        async def move(server, request):
            public.append(1)  # from here on only public addresses may be asked
            return await status(302, Location=place)(server, request)

        async with reading(move, allow_private=lambda: not public) as found:
            task = asyncio.ensure_future(found.get(1))
            await until(lambda: len(found.faults) >= 2)
            found.may = False
            await task
            return found

    found = run(work)

    assert found.faults[0].end is End.HTTP
    assert "not public" in found.faults[0].message or "no http" in found.faults[0].message
    assert "not public" in found.faults[1].message
    assert len(found.server.asked) == 1


def test_a_stream_that_was_open_before_private_addresses_were_refused_is_left():
    async def work():
        guarded = []
        async with reading(allow_private=lambda: not guarded) as found:
            await found.server.publish("one")

            def is_left(so_far):
                guarded.append(1)
                found.may = not so_far.faults
                return False

            task = asyncio.ensure_future(found.until(is_left))
            await until(lambda: found.faults)
            found.may = False
            await task
            return found

    assert "come into force" in run(work).faults[0].message


def test_a_port_that_sites_may_not_be_asked_at_is_none_of_a_streams():
    async def work():
        async with reading(may_ask=False) as found:
            task = asyncio.ensure_future(found.get(1))
            await until(lambda: found.faults)
            found.may = False
            await task
            return found

    found = run(work)

    assert "none that may be asked" in found.faults[0].message
    assert found.server.asked == []


def test_the_secret_goes_to_the_origin_alone_and_is_in_no_fault_and_no_log(caplog):
    caplog.set_level(logging.DEBUG)

    async def work():
        async with StreamServer() as other:
            await other.publish("elsewhere")
            there = status(307, Location=other.url)
            script = [status(403), there]
            async with reading(*script, secret="wire", texts={"wire": "t0p-s3cret"}) as found:
                await found.get(1)
                return found, other

    found, other = run(work)

    assert [said.get("Authorization") for _, said in found.server.asked] == [
        "Bearer t0p-s3cret"
    ] * 2
    assert ["Authorization" in said for _, said in other.asked] == [False]
    assert "t0p-s3cret" not in caplog.text + str(found.faults)


def test_a_secret_that_is_refused_is_read_again():
    async def work():
        texts = {"wire": ["old", *["new"] * 9]}
        async with reading(secret="wire", texts=texts, token="new") as found:
            await found.server.publish("one")
            return await found.get(1)

    found = run(work)

    assert found.texts == ["one"]
    assert "Bearer old" in [said.get("Authorization") for _, said in found.server.asked]


def test_a_stream_that_filters_by_itself_is_asked_for_the_filter():
    async def work():
        async with reading(filter_parameter="q", path="?lang=en") as found:
            await found.server.publish("one")
            return await found.get(1)

    [(query, headers)] = run(work).server.asked

    assert query == {"lang": "en", "q": "storm OR rain"}
    assert headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("script", [(), (pieces(silent=True),)])
def test_who_may_read_no_more_closes_the_connection_whatever_it_waits_for(script):
    async def work():
        async with reading(*script) as found:
            task = asyncio.ensure_future(found.get(1))
            await until(lambda: found.server.open)
            found.may = False
            await task
            await until(lambda: not found.server.open)
            return found

    found = run(work)

    assert (found.items, found.faults) == ([], [])
