"""Feeds are read from a real site: once a round, on condition, and nothing is lost or twice."""

import asyncio
from contextlib import aclosing
from datetime import timedelta

import pytest

from tests.contract.streams.feed_site import DAY, NOW, Round, Site, opened
from tests.kit.executors import BUILT_IN
from tests.kit.feeds import moved_to, parsed_by
from tests.kit.fetching import AiohttpFetcher, Followed
from tests.kit.reading import PAGE_READER, PageReader, Spawner


@pytest.fixture
def run(mongo_connection, tenant):
    """Run a test's coroutine with a site, a round and a fetcher; URLs are the test's own."""

    def run_it(work):
        async def go():
            site = Site()
            async with opened(site), AiohttpFetcher(True) as fetcher:
                return await work(site, Round(mongo_connection, site), fetcher)

        return asyncio.run(go())

    return run_it


def test_a_feed_is_asked_for_once_a_round_however_many_want_it(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/{n}" for n in range(20)]
        for day in range(3):
            rounds.now = NOW + day * DAY
            # Three workers, to each of which all feeds are several subscriptions'.
            readers = [rounds.reader(fetcher, urls * 3, f"w{n}") for n in range(3)]
            await rounds.read(*readers, urls=urls)

            assert sorted(site.paths) == sorted(f"/f/{n}" for n in range(20))
            site.asked.clear()

    run(work)


def test_slow_feeds_of_one_tenant_keep_no_other_tenants_waiting(run):
    async def work(site, rounds, fetcher):
        theirs = [f"http://slow-{n}.example/" for n in range(30)]
        ours = [f"{site.url}/f/{n}" for n in range(30)]
        # They subscribe to ours, too, as if that could take ours for their part.
        tenants = {**dict.fromkeys(theirs, ("them",)), **dict.fromkeys(ours, ("them", "us"))}
        reader = rounds.reader(fetcher, [*theirs, *ours], tenants=lambda: tenants, concurrency=8)
        answer, asked = reader.download, []

        async def download(feed):
            if feed.url in ours:
                return await answer(feed)
            asked.append(feed.url)
            return await asyncio.Event().wait()

        reader.download = download

        await rounds.read(reader, urls=ours)

        assert len(asked) == 4, "they have their part of the places"

    run(work)


def test_what_is_new_of_a_feed_is_given_once_whoever_reads_it(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a", f"{site.url}/f/b"]
        given = []
        for items in (["1"], ["2", "1"], ["2", "1"], ["3", "1"]):
            site.items = {"/f/a": items}
            found = await rounds.read(rounds.reader(fetcher, urls), urls=urls)
            given.append(sorted((item.channel[-1], item.title[-1]) for item in found))
            rounds.now += DAY / 2

        assert given == [[("a", "1"), ("b", "1")], [("a", "2")], [], [("a", "3")]]

    run(work)


def test_an_unchanged_feed_is_a_304(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a"]
        for _ in range(2):
            reader = rounds.reader(fetcher, urls)
            await rounds.read(reader, urls=urls)
            rounds.now += DAY / 2

        assert reader.counts == {"unchanged": 1}
        assert [headers.get("If-None-Match") for _, headers in site.asked] == [None, '"1"']

    run(work)


def test_a_reader_that_dies_before_its_items_are_accepted_loses_none(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a"]
        reader = rounds.reader(fetcher, urls)
        async with aclosing(reader.read("", lambda: True)) as batches:
            async for batch in batches:
                lost = batch.items
                break

        found = await rounds.read(rounds.reader(fetcher, urls, "w2"), urls=urls)

        assert lost
        assert [item.id for item in found] == [item.id for item in lost]

    run(work)


def test_a_permanent_redirect_is_remembered_and_a_temporary_one_is_not(run):
    async def work(site, rounds, fetcher):
        for path, status, to in (("/old", 301, "/f/a"), ("/now", 302, "/f/b")):
            site.answers[path] = {"status": status, "headers": {"Location": to}}
        urls = [f"{site.url}/old", f"{site.url}/now"]
        channels = set()
        for _ in range(2):
            found = await rounds.read(rounds.reader(fetcher, urls), urls=urls)
            channels |= {item.channel for item in found}
            rounds.now += DAY / 2

        assert sorted(site.paths) == ["/f/a", "/f/a", "/f/b", "/f/b", "/now", "/now", "/old"]
        # Validators go to the place that gave them, and not to the one that redirects there.
        asked = [(path, headers.get("If-None-Match")) for path, headers in site.asked[3:]]
        assert ("/f/a", '"1"') in asked
        assert ("/f/b", '"1"') in asked
        assert ("/now", '"1"') not in asked
        assert channels == set(urls)

    run(work)


def test_feeds_that_cannot_be_read_fail_by_themselves(run):
    async def work(site, rounds, fetcher):
        site.answers = {
            "/gone": {"status": 410},
            "/page": {"text": "<p>hello", "content_type": "text/html"},
        }
        paths = ["/gone", "/page", "/private", "/f/a"]
        urls = [f"{site.url}{path}" for path in paths]

        found = await rounds.read(rounds.reader(fetcher, urls), urls=urls)

        known = rounds.store.known(urls)
        gone, page, private, good = (known[url] for url in urls)
        assert [item.channel for item in found] == [urls[-1]]
        assert (gone.gone, good.trouble) == (True, "")
        assert [one.trouble.partition(":")[0] for one in (gone, page, private)] == [
            *("PageGone", "Extract", "RobotsDenied")
        ]
        assert "/private" not in site.paths

    run(work)


def test_a_site_that_asks_for_it_is_left_alone(run):
    async def work(site, rounds, fetcher):
        site.answers = {"/busy": {"status": 503, "headers": {"Retry-After": "100000"}}}
        urls = [f"{site.url}/busy"]

        await rounds.read(rounds.reader(fetcher, urls), urls=urls)

        [feed] = rounds.store.known(urls).values()
        assert feed.trouble.startswith("Throttled")
        assert feed.next_at >= NOW + timedelta(seconds=100_000)

    run(work)


def test_a_feed_is_parsed_in_the_process_that_pages_are_read_in(run):
    async def work(site, rounds, fetcher):
        urls = [f"{site.url}/f/a"]
        spawner = Spawner(PAGE_READER, packages=[], executors=[])
        try:
            async with PageReader(spawner) as pages:
                reader = rounds.reader(fetcher, urls, parse=parsed_by(pages))
                return await rounds.read(reader, urls=urls)
        finally:
            spawner.close()

    [item] = run(work)
    assert item.title == "Title /f/a 1"


def test_feeds_that_are_not_wanted_any_more_are_not_asked_for(run):
    async def work(site, rounds, fetcher):
        both = [f"{site.url}/f/a", f"{site.url}/f/b"]
        await rounds.read(rounds.reader(fetcher, both), urls=both)
        rounds.now += DAY
        site.asked.clear()

        reader = rounds.reader(fetcher, both)
        reader.wanted = lambda: both[:1]
        await rounds.read(reader, urls=both[:1])

        assert site.paths == ["/f/a"]

    run(work)


@pytest.mark.parametrize(
    ("statuses", "place"),
    [([], ""), ([301, 308], "1"), ([301, 302, 301], "0"), ([302, 301], ""), ([307], "")],
)
def test_only_permanent_redirects_from_the_beginning_move_a_feed(statuses, place):
    followed = tuple(Followed(status=one, place=str(n)) for n, one in enumerate(statuses))

    assert moved_to(followed) == place


def test_feeds_are_read_by_an_executor_of_the_package():
    assert "feed_items" in BUILT_IN
