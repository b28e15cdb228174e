"""Tests of a host slot for each hop, and of a page's limits: time, content type, size."""

import asyncio
import gzip

import pytest

from tests.contract.raw_site import LIMITS, ask, fetch_from, limits, outcome, passing, reply, site
from tests.fakes.fetching import MemoryFetcher
from tests.kit.fetching import (
    STEP_BYTES,
    AiohttpFetcher,
    BodyRoom,
    FetchContext,
    HeldUpError,
    HostSlots,
)
from tests.kit.kernel import (
    FetchTimeoutError,
    LeaseLostError,
    PageGoneError,
    RobotsDeniedError,
    ThrottledError,
    TooLargeError,
    UnwantedTypeError,
)
from tests.kit.requests import Page, Validators

OK = b"HTTP/1.1 200 OK\r\n"

# ---- both --------------------------------------------------------------------------------------


async def _real(check):
    async def answer(head, writer):
        known = {
            b"/a": reply(status=302, Location="/b#part"),
            b"/b": reply(status=301, Location="/c"),
            b"/c": reply(b"end", ETag='"v1"', Content_Type="text/html; charset=utf-8"),
        }
        if b"If-None-Match: " in head:
            known[b"/c"] = reply(status=304, ETag='"v1"')
        writer.write(known[head.split()[1]])

    async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
        await check(fetcher, stands.url)


async def _twin(check):
    def url(path):
        return f"http://a.example{path}"

    page = Page(
        url=url("/c#part"),
        status=200,
        headers={"content-type": "text/html; charset=utf-8", "etag": '"v1"'},
        body=b"end",
    )
    whole = Page(
        url=page.url,
        status=200,
        headers=page.headers,
        body=page.body,
        redirects=(url("/a"), url("/b#part")),
    )
    async with MemoryFetcher({url("/a"): whole, url("/c"): page}) as fetcher:
        await check(fetcher, url)


@pytest.fixture(params=[_real, _twin], ids=["real", "memory"])
def over(request):
    """Runs a check over a fetcher in which ``/a`` leads over ``/b`` to ``/c``."""
    return lambda check: asyncio.run(request.param(check))


def test_a_download_that_is_held_up_goes_on_behind_the_redirects_it_has_followed(over):
    async def check(fetcher, url):
        sent, followed = [], ()

        def guard_of(may_send):
            async def hop_guard(place):
                if len(may_send) == 1:
                    raise HeldUpError("no slot")
                may_send.append(place)
                sent.append(place)

            return hop_guard

        for _ in range(2):
            context = FetchContext(followed=followed)
            with pytest.raises(HeldUpError) as caught:
                await fetcher.fetch(ask(url("/a")), LIMITS, guard_of([]), context)
            followed = caught.value.followed
        page = await fetcher.fetch(
            ask(url("/a")), LIMITS, guard_of([]), FetchContext(followed=followed)
        )

        assert sent == [url("/a"), url("/b"), url("/c")], "nothing is asked for twice"
        assert (page.url, page.body) == (url("/c#part"), b"end")
        assert page.redirects == (url("/a"), url("/b#part"))

    over(check)


def test_each_hop_is_asked_for_right_before_it_is_sent_without_its_fragment(over):
    async def check(fetcher, url):
        asked = []

        async def hop_guard(place):
            asked.append(place)

        page = await fetcher.fetch(ask(url("/a")), LIMITS, hop_guard)

        assert asked == [url("/a"), url("/b"), url("/c")]
        assert page.redirects == (url("/a"), url("/b#part"))
        assert page.url == url("/c#part")

    over(check)


@pytest.mark.parametrize("at", ["/a", "/b", "/c"])
@pytest.mark.parametrize(
    "error",
    [
        LeaseLostError("another worker owns it"),
        RobotsDeniedError("line 3"),
        ThrottledError("not for a while", retry_after_seconds=60.0),
        KeyError("a mistake of ours"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_error_of_the_hop_guard_ends_the_download(over, at, error):
    async def check(fetcher, url):
        asked = []

        async def hop_guard(place):
            asked.append(place)
            if place == url(at):
                raise error

        with pytest.raises(type(error)) as caught:
            await fetcher.fetch(ask(url("/a")), LIMITS, hop_guard)

        assert caught.value is error
        assert getattr(error, "answer", None) is None
        assert asked[-1] == url(at)

    over(check)


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [((), True), (("text/html",), True), (("text/*",), True), (("image/*", "text/x"), False)],
)
def test_pages_of_other_types_are_refused(over, wanted, passes):
    async def check(fetcher, url):
        fetched = fetcher.fetch(ask(url("/c")), limits(content_types=wanted))
        if passes:
            assert (await fetched).body == b"end"
            return
        with pytest.raises(UnwantedTypeError) as caught:
            await fetched
        assert not caught.value.retryable
        assert (caught.value.answer.status, caught.value.answer.sample) == (200, b"")

    over(check)


def test_a_page_that_has_not_changed_comes_without_a_body(over):
    async def check(fetcher, url):
        fetch_context = FetchContext(validators=Validators(etag='"v1"'))

        page = await fetcher.fetch(ask(url("/c")), LIMITS, None, fetch_context)
        along = await fetcher.fetch(ask(url("/a")), LIMITS, None, fetch_context)

        assert (page.status, page.body, page.headers["etag"]) == (304, b"", '"v1"')
        assert (along.status, len(along.redirects)) == (304, 2)

    over(check)


# ---- what only the real one can show -----------------------------------------------------------


def test_nothing_is_sent_before_the_hop_guard_agrees():
    async def run():
        async with site(reply(b"x")) as stands, AiohttpFetcher(allow_private=True) as fetcher:

            async def hop_guard(_):
                assert stands.connections == 0

            await fetcher.fetch(ask(stands.url()), LIMITS, hop_guard)
            return stands.connections

    assert asyncio.run(run()) == 1


def test_waiting_for_a_slot_takes_no_time_off():
    async def run():
        async def answer(head, writer):
            here = head.split()[1] == b"/a"
            writer.write(reply(status=302, Location="/b") if here else reply(b"x"))

        async def hop_guard(_):
            await passing(0.4)

        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            short = limits(connect_seconds=0.3, first_byte_seconds=0.3, total_seconds=0.35)
            return await fetcher.fetch(ask(stands.url("/a")), short, hop_guard)

    assert asyncio.run(run()).seconds < 0.35


def test_the_time_of_all_hops_counts_together():
    async def answer(_, writer):
        await passing(0.15)
        writer.write(reply(status=302, Location="/on"))

    error = fetch_from(answer, limits(total_seconds=0.4, max_redirects=20))

    assert type(error) is FetchTimeoutError
    assert 0.3 < error.answer.seconds < 2.0


def _silent(start):
    async def answer(_, writer):
        writer.write(start)
        await writer.drain()
        await asyncio.Event().wait()

    return answer


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", OK, OK + b"X-A: b\r\n"])
def test_an_answer_has_to_begin_in_time(start):
    error = fetch_from(_silent(start), limits(first_byte_seconds=0.2))

    assert type(error) is FetchTimeoutError
    assert "to begin" in str(error)


def test_a_body_may_take_longer_than_the_answer_may_take_to_begin():
    async def answer(_, writer):
        writer.write(OK + b"Content-Length: 4\r\n\r\n")
        for _ in range(4):
            await passing(0.1)
            writer.write(b"x")

    assert fetch_from(answer, limits(first_byte_seconds=0.2)).body == b"xxxx"


@pytest.mark.parametrize("head", [OK, OK + b"Content-Type: \r\n", OK + b"Content-Type: ;x\r\n"])
def test_a_page_that_does_not_say_what_it_is_passes(head):
    said = head + b"Content-Length: 1\r\n\r\nx"

    assert fetch_from(said, limits(content_types=("text/html",))).body == b"x"


def test_a_body_of_an_unwanted_type_is_not_waited_for():
    said = _silent(OK + b"Content-Type: Video/MP4\r\nContent-Length: 5000\r\n\r\n")

    error = fetch_from(said, limits(content_types=("text/*",)))

    assert type(error) is UnwantedTypeError
    assert error.answer.headers["content-type"] == "Video/MP4"


def test_an_error_is_an_error_of_whatever_type():
    said = reply(b"x", status=404, Content_Type="video/mp4")

    assert type(fetch_from(said, limits(content_types=("text/*",)))) is PageGoneError


def test_304_without_validators_is_an_error_also_where_the_tenant_sent_its_own():
    async def answer(_, writer):
        writer.write(reply(status=304))

    async def run():
        async with site(answer) as stands, AiohttpFetcher(True) as fetcher:
            with pytest.raises(PageGoneError):
                await fetcher.fetch(ask(stands.url(), headers={"If-None-Match": "x"}), LIMITS)
            fetch_context = FetchContext(validators=Validators(last_modified="now"))
            with pytest.raises(PageGoneError):
                await fetcher.fetch(ask(stands.url(), method="POST"), LIMITS, None, fetch_context)
            page = await fetcher.fetch(ask(stands.url()), LIMITS, None, fetch_context)
            return page.status, stands.heads

    status, heads = asyncio.run(run())

    assert status == 304
    assert b"If-Modified-Since: now" in heads[2]
    assert b"If-Modified-Since" not in heads[1]


def test_accept_encoding_names_all_that_is_undone():
    async def run():
        async with site(reply()) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            await fetcher.fetch(ask(stands.url()), LIMITS)
            return stands.heads[0]

    assert b"Accept-Encoding: gzip, deflate, br, zstd\r\n" in asyncio.run(run())


def test_a_redirect_to_another_host_leaves_the_slot_of_the_first():
    """Both hosts allow one download at a time, and each way leads over both, crosswise."""

    async def run():
        async def answer(head, writer):
            there = head.split()[1].removeprefix(b"/").decode()
            writer.write(reply(status=302, Location=f"http://{there}/") if there else reply(b"x"))

        slots = HostSlots()
        async with (
            site(answer) as stands,
            AiohttpFetcher(allow_private=True, slots=slots) as fetcher,
        ):
            one, hosts = limits(per_host=1), ("127.0.0.1", "localhost")
            urls = [
                stands.url(f"/{there}:{stands.port}", host=here)
                for here, there in zip(hosts, reversed(hosts), strict=True)
            ] * 10
            pages = await asyncio.gather(*(fetcher.fetch(ask(url), one) for url in urls))
            return [page.body for page in pages], len(slots)

    assert asyncio.run(run()) == ([b"x"] * 20, 0)


# ---- together ----------------------------------------------------------------------------------


class WatchedRoom(BodyRoom):
    """Room for bodies that says what it looks like whenever some of it was given."""

    def __init__(self, total, note):
        super().__init__(total)
        self.note = note

    async def take(self, share, count):
        await super().take(share, count)
        self.note(self, share)


def test_bodies_in_flight_are_bounded_together():
    """Twenty bodies of four megabytes, of which there is room for eight megabytes at once."""

    async def run():
        size = 4_000_000
        left = []
        room = WatchedRoom(2 * size, lambda room, _: left.append(room.free))

        async def answer(_, writer):
            writer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
            for _ in range(size // 100_000):
                writer.write(b"x" * 100_000)
                await writer.drain()

        async with (
            site(answer) as stands,
            AiohttpFetcher(allow_private=True, room=room) as fetcher,
        ):

            async def one():
                page = await fetcher.fetch(ask(stands.url()), limits(max_body_bytes=size))
                return len(page.body)

            sizes = await asyncio.gather(*(one() for _ in range(20)))
            return sizes, 2 * size - min(left), room.free == 2 * size

    sizes, most, all_given_back = asyncio.run(run())

    assert sizes == [4_000_000] * 20
    assert most <= 8_000_000 + 4_000_000 + STEP_BYTES
    assert all_given_back


def test_a_body_that_finds_no_room_in_its_time_ends_with_it():
    async def run():
        part_read = asyncio.Event()
        room = WatchedRoom(700_000, lambda _, share: share.held >= 600_000 and part_read.set())

        async def answer(head, writer):
            writer.write(OK + b"Content-Length: 900000\r\n\r\n" + b"x" * 600_000)
            await writer.drain()
            if head.split()[1] == b"/slow":
                await asyncio.Event().wait()
            writer.write(b"x" * 300_000)

        async with (
            site(answer) as stands,
            AiohttpFetcher(allow_private=True, room=room) as fetcher,
        ):
            long = limits(max_body_bytes=900_000, total_seconds=1.5)
            slow = asyncio.create_task(fetcher.fetch(ask(stands.url("/slow")), long))
            await part_read.wait()
            short = limits(max_body_bytes=900_000, total_seconds=0.3)
            with pytest.raises(FetchTimeoutError):
                await fetcher.fetch(ask(stands.url("/quick")), short)
            after = asyncio.create_task(
                fetcher.fetch(ask(stands.url("/quick")), limits(max_body_bytes=900_000))
            )
            with pytest.raises(FetchTimeoutError):
                await slow
            return len((await after).body)

    assert asyncio.run(run()) == 900_000


def test_compressed_bodies_count_by_what_they_become():
    async def run():
        said = reply(gzip.compress(bytes(3_000_000)), Content_Encoding="gzip")
        held = []
        room = WatchedRoom(1_000_000, lambda _, share: held.append(share.held))
        async with (
            site(said) as stands,
            AiohttpFetcher(allow_private=True, room=room) as fetcher,
        ):
            page = await fetcher.fetch(ask(stands.url()), limits(max_body_bytes=3_000_000))
            return len(page.body), max(held) >= 3_000_000, room.free

    assert asyncio.run(run()) == (3_000_000, True, 1_000_000)


def test_a_fetcher_that_is_closed_takes_no_more():
    async def run():
        async with AiohttpFetcher(allow_private=True) as fetcher:
            pass
        with pytest.raises(RuntimeError, match="async with"):
            await fetcher.fetch(ask("http://a.example/"), LIMITS)

    asyncio.run(run())


def test_redirects_beyond_the_limit_end_the_way():
    async def answer(head, writer):
        number = int(head.split()[1].lstrip(b"/") or 0)
        writer.write(reply(status=307, Location=f"/{number + 1}"))

    async def run():
        async with site(answer) as stands:
            return await outcome(stands.url("/0"), limits(max_redirects=5)), len(stands.heads)

    error, asked = asyncio.run(run())

    assert (type(error), asked) == (TooLargeError, 6)
