"""Headers whose values are secrets: who gets them, and what comes back of them."""

import asyncio

import pytest

from tests.contract.raw_site import LIMITS, ask, limits, reply, site
from tests.kit.config import Secret
from tests.kit.fetching import AiohttpFetcher, FetchContext, SecretTexts
from tests.kit.kernel import FetchError, NoSecretError, PageGoneError, QueueKey

TEXT = "Bearer t0ken-of-acme"
CONTEXT = FetchContext(queue_key=QueueKey("acme", "docs", "main"))


class Store:
    """The secrets of tenants, by tenant and name."""

    def __init__(self, *texts):
        self.texts = list(texts)

    def __call__(self, tenant, name):
        assert (tenant, name) == ("acme", "api")
        return self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]


def asked(url, *texts, again=15.0, name="Authorization", **secret):
    """Download with a header that is a secret; ``texts`` are what it is, one reading after another.

    Each look at the clock is ``again`` seconds after the one before.
    """
    moments = iter(range(10_000))
    texts = SecretTexts(Store(*texts), clock=lambda: next(moments) * again)
    headers = {name: Secret(secret="api", **secret), "X-Plain": "plain"}

    async def run():
        async with AiohttpFetcher(True, secrets=texts) as fetcher:
            return await fetcher.fetch(ask(url), limits(headers=headers), None, CONTEXT)

    return run()


def test_a_header_that_refers_to_a_secret_is_sent_with_its_text():
    async def run():
        async with site(reply(b"page")) as stands:
            return await asked(stands.url(), TEXT), stands.heads[0]

    page, head = asyncio.run(run())

    assert page.body == b"page"
    assert b"\r\nAuthorization: Bearer t0ken-of-acme\r\n" in head
    assert b"\r\nX-Plain: plain\r\n" in head


@pytest.mark.parametrize("name", ["Authorization", "X-Shop"])
def test_a_redirect_to_another_origin_never_takes_a_secret_along(name):
    async def run():
        async with site(reply(b"there")) as other:
            place = other.url("/x", host="localhost")
            async with site(reply(status=302, Location=place)) as stands:
                await asked(stands.url(), TEXT, name=name)
                return stands.heads[0], other.heads[0]

    first, second = asyncio.run(run())

    assert b"t0ken-of-acme" in first
    assert b"t0ken-of-acme" not in second
    assert b"X-Plain: plain" in second


def test_a_secret_for_named_hosts_is_sent_to_no_other():
    async def run(*hosts):
        async with site(reply(b"page")) as stands:
            await asked(stands.url(), TEXT, hosts=hosts)
            return stands.heads[0]

    assert b"t0ken-of-acme" in asyncio.run(run("shop.example", "127.0.0.1"))
    assert b"t0ken-of-acme" not in asyncio.run(run("shop.example"))


def test_what_a_site_echoes_of_a_secret_is_in_no_page():
    echo = reply(b"you sent Bearer t0ken-of-acme, that is t0ken-of-acme", X_Echo="t0ken-of-acme")

    async def run():
        async with site(echo) as stands:
            return await asked(stands.url(), TEXT)

    page = asyncio.run(run())

    assert page.body == b"you sent ***, that is ***"
    assert page.headers["x-echo"] == "***"


def test_what_a_site_echoes_of_a_secret_is_in_no_answer_that_is_kept():
    echo = reply(b"unknown: t0ken-of-acme", status=404, Server="t0ken-of-acme")

    async def run():
        async with site(echo) as stands:
            with pytest.raises(PageGoneError) as caught:
                await asked(stands.url("/?t0ken-of-acme"), TEXT)
            return caught.value

    answer = asyncio.run(run()).answer

    assert answer.sample == b"unknown: ***"
    assert answer.headers["server"] == "***"
    assert answer.url.endswith("/?***")


def test_a_secret_that_may_be_any_word_is_left_in_pages_and_their_addresses():
    """A page whose address was another would have its links lead elsewhere."""

    async def run():
        async with site(reply(b"a page of 127", X_Echo="127")) as stands:
            return stands.url(), await asked(stands.url(), "Key 127")

    url, page = asyncio.run(run())

    assert (page.url, page.body, page.headers["x-echo"]) == (url, b"a page of 127", "127")


def door(current):
    """A site that lets in whoever has the current token."""

    async def answer(head, writer):
        good = b"Authorization: " + current.encode() in head
        writer.write(reply(b"in") if good else reply(status=401))
        await writer.drain()

    return answer


def test_a_secret_that_was_rotated_is_read_again_and_the_page_asked_for_once_more():
    async def run():
        async with site(door("Bearer new-token")) as stands:
            page = await asked(stands.url(), "Bearer old-token", "Bearer new-token")
            return page, len(stands.heads)

    page, heads = asyncio.run(run())

    assert (page.body, heads) == (b"in", 2)


def test_a_secret_that_is_refused_and_stays_the_same_is_sent_once():
    async def run():
        async with site(door("Bearer other")) as stands:
            with pytest.raises(FetchError) as caught:
                await asked(stands.url(), "Bearer old-token")
            return caught.value.status, len(stands.heads)

    assert asyncio.run(run()) == (401, 1)


def test_without_its_secret_nothing_is_asked_for():
    async def run():
        async with site(reply(b"page")) as stands, AiohttpFetcher(True) as fetcher:
            given = limits(headers={"Authorization": Secret(secret="api")})
            with pytest.raises(NoSecretError, match="'api' of tenant 'acme'"):
                await fetcher.fetch(ask(stands.url()), given, None, CONTEXT)
            return stands.heads

    assert asyncio.run(run()) == []


def test_headers_without_secrets_are_sent_as_before():
    async def run():
        async with site(reply(b"page")) as stands, AiohttpFetcher(True) as fetcher:
            await fetcher.fetch(ask(stands.url()), LIMITS)
            return stands.heads

    assert len(asyncio.run(run())) == 1
