"""Robots rules: what a robots.txt allows, and what it costs to fetch it."""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from tests.kit.config import FetchLimits, Politeness
from tests.kit.kernel import origin_of
from tests.kit.politeness import (
    MAX_BYTES,
    MAX_KEPT_BYTES,
    MAX_RULES,
    MAX_WILDCARDS,
    RobotsCopy,
    RulesShelf,
    SiteRules,
    kept_copy,
    kept_seconds,
    packed,
    product_of,
)

ORIGIN = "https://example.org"
PAGE = f"{ORIGIN}/private/page?x=1"


def site(text: str | bytes = "", status: int = 200) -> SiteRules:
    body = text if isinstance(text, bytes) else text.encode()
    return SiteRules(ORIGIN, RobotsCopy(status=status, text=body))


def may(text: str | bytes, path: str, product: str = "Crawlfleet") -> bool:
    return site(text).verdict(ORIGIN + path, product).allowed


# ---- by status ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 308, 400, 401, 403, 404, 410, 451, 499])
def test_where_there_is_no_file_everything_is_allowed(status):
    found = site("User-agent: *\nDisallow: /", status)

    assert found.verdict(PAGE, "x").allowed
    assert found.crawl_delay("x") is None
    assert kept_seconds(RobotsCopy(status=status)) == 86_400


@pytest.mark.parametrize("status", [0, 100, 429, 500, 503, 599, 600])
def test_where_it_is_not_known_nothing_is_allowed_for_now(status):
    verdict = site("", status).verdict(PAGE, "x")

    assert not verdict.allowed
    assert verdict.unknown
    assert verdict.why.startswith(f"{ORIGIN}/robots.txt ")
    assert kept_seconds(RobotsCopy(status=status)) <= 300


def test_a_file_is_good_for_a_day():
    assert kept_seconds(RobotsCopy(status=200)) == 86_400


# ---- by rules -----------------------------------------------------------------------------------


def test_a_refusal_names_the_line():
    verdict = site("User-agent: *\nAllow: /p\nDisallow: /private/ # ours\n").verdict(PAGE, "Bot")

    assert not verdict.allowed
    assert not verdict.unknown
    assert verdict.why == f"{ORIGIN}/robots.txt says to Bot: Disallow: /private/"


def test_a_refusal_names_something_where_protego_shows_no_line(monkeypatch):
    found = site("User-agent: *\nDisallow: /private/")
    monkeypatch.delattr("protego._utils._quote_path")

    assert found.verdict(PAGE, "Bot").why.endswith("Disallow: (a rule for /private/page)")


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /", "/a", False),
        ("User-agent: *\nDisallow: /", "/robots.txt", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a/b", "/a/b/c", True),
        ("User-agent: *\nDisallow: /a\nAllow: /a", "/a", True),
        ("User-agent: *\nDisallow: /*.php$", "/x.php", False),
        ("User-agent: *\nDisallow: /*.php$", "/x.php?y", True),
        ("User-agent: *\nDisallow: /b%c3%bc", "/bü", False),
        ("User-agent: *\r\nDisallow: /a\rAllow: /a/b\n", "/a/b", True),
        ("\ufeffUser-agent: *\nDisallow: /", "/a", False),
        ("Disallow: /", "/a", True),
        ("user-agent *\ndisallow /", "/a", False),
        ("User-agent: *\nCrawl-delay: 5\nDisallow: /a", "/a", False),
        ("User-agent: *\nSitemap: https://x/\nDisallow: /a", "/a", False),
        ("User-agent: *\nDisallow: /a\n\nDisallow: /b", "/b", False),
        ("User-agent: a\n\nUser-agent: *\nDisallow: /b", "/b", False),
        ("User-agent: a\nSitemap: https://x/\nUser-agent: *\nDisallow: /b", "/b", False),
        ("User-agent: a\nDisallow:\nUser-agent: *\nAllow: /", "/b", True),
        (b"User-agent: *\nDisallow: /\xff\xfe", "/a", True),
        ("User-agent: *\nDisallow: /a\x00b", "/a", True),
        ("User-agent: *\nDisallow: /a\u2028Disallow: /b", "/b", True),
    ],
)
def test_a_file_says(text, path, allowed):
    assert may(text, path) is allowed


@pytest.mark.parametrize(
    ("agents", "ours"),
    [
        ("Crawlfleet", True),
        ("cRAWLFLEET", True),
        ("Crawlfleet/2.0", True),
        ("Crawlfleet Other", True),
        ("Crawl", False),
        ("Crawlfleet-News", False),
        ("My-Crawlfleet", False),
        ("Crawlfleet\nUser-agent: Other", True),
        ("Other\nUser-agent: Crawlfleet", True),
    ],
)
def test_the_group_of_the_product_is_the_only_one_that_counts(agents, ours):
    text = f"User-agent: *\nDisallow: /all\n\nUser-agent: {agents}\nDisallow: /own\n"

    assert may(text, "/all") is ours
    assert may(text, "/own") is not ours


def test_groups_of_one_product_are_one():
    text = "User-agent: Crawlfleet\nDisallow: /a\nUser-agent: *\nDisallow: /c\n"
    text += "User-agent: crawlfleet\nDisallow: /b\n"

    assert [may(text, path) for path in ("/a", "/b", "/c")] == [False, False, True]
    assert [may(text, path, "other") for path in ("/a", "/b", "/c")] == [True, True, False]


@pytest.mark.parametrize(
    ("said", "delay"),
    [("2.5", 2.5), ("0", 0.0), ("-1", None), ("nan", None), ("inf", None), ("x", None)],
)
def test_the_crawl_delay_is_the_groups(said, delay):
    found = site(f"User-agent: *\nCrawl-delay: 9\nUser-agent: Bot\nCrawl-delay: {said}\n")

    assert found.crawl_delay("bot") == delay
    assert found.crawl_delay("other") == 9


# ---- who asks, and whom -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "product"),
    [("Crawlfleet", "Crawlfleet"), ("Bot/1.0 (x)", "Bot"), ("(nobody)", ""), ("3x", "")],
)
def test_the_product_is_the_user_agents_first_word_if_the_biz_names_none(agent, product):
    assert product_of(Politeness(), FetchLimits(user_agent=agent)) == product
    assert product_of(Politeness(product="Own"), FetchLimits(user_agent=agent)) == "Own"


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://example.org:80/a", "http://example.org"),
        ("https://example.org:80/a", "https://example.org:80"),
        ("HTTP://u:p@EXAMPLE.org.:0443?x", "http://example.org:443"),
        ("http://[::1]/", "http://[::1]"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        ("http://example.org:/", "http://example.org"),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(url, origin):
    assert origin_of(url) == origin


# ---- hostile files ------------------------------------------------------------------------------


def repeated(line: str, size: int = MAX_BYTES + 5_000) -> str:
    lines = []
    while size > 0:
        lines.append(line.replace("%", f"{len(lines):x}"))
        size -= len(lines[-1]) + 1
    return "User-agent: *\n" + "\n".join(lines)


HOSTILE = {
    "prefixes": repeated("Disallow: /%"),
    "wildcards": repeated("Disallow: /*%"),
    "dollars": repeated("Disallow: /$$$$$%"),
    "stars": repeated("Disallow: /" + "*a" * 4_000),
    "one line of stars": "User-agent: *\nDisallow: /" + "*a" * MAX_BYTES,
    "strange agents": "".join(f"User-agent: b{n}\n" for n in range(8_000))
    + repeated("Disallow: /%", 300_000),
    "agents alike": "".join(f"User-agent: {'Bot'[: 1 + n % 3]}\n" for n in range(40_000))
    + "Disallow: /x",
    "groups alike": repeated("User-agent: Bot\nDisallow: /%"),
    "no line end": "x" * 2 * MAX_BYTES,
    "no lines": "\n" * 2 * MAX_BYTES,
    "zeros": "\x00" * MAX_BYTES,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_file_costs_more_than_a_moment(text):
    url = f"{ORIGIN}/" + "a" * 7_000

    started = time.process_time()
    found = site(text)
    found.verdict(url, "Bot")
    parsed = time.process_time()
    for _ in range(5):
        found.verdict(url, "Bot")
    each = (time.process_time() - parsed) / 5

    assert parsed - started < 10.0
    assert each < 0.5


def test_what_has_too_many_rules_allows_nothing_but_the_file():
    for text in (
        repeated("Disallow: /x%", 20 * MAX_RULES),
        repeated("Disallow: /*x%", 20 * MAX_WILDCARDS),
    ):
        verdict = site(text).verdict(f"{ORIGIN}/page", "Bot")
        assert not verdict.allowed
        assert not verdict.unknown
        assert "more than" in verdict.why
        assert may(text, "/robots.txt")


def test_a_large_file_within_the_bounds_is_read_to_its_end():
    text = repeated("Disallow: /%", 140_000)
    assert text.count("\n") <= MAX_RULES

    assert not may(text + "\nDisallow: /last", "/last")


def test_a_rule_that_was_cut_off_does_not_count():
    head = "User-agent: *\nDisallow: /a\n"
    text = head + "#" * (MAX_BYTES - len(head) - len("\nDisallow: /pri")) + "\nDisallow: /private"
    assert text[:MAX_BYTES].endswith("Disallow: /pri")

    assert may(text, "/prices")
    assert not may(text, "/a")


@given(st.binary(max_size=2_000) | st.text(max_size=500).map(str.encode), st.text(max_size=50))
def test_nothing_that_a_site_sends_fails(body, path):
    found = site(b"User-agent: *\n" + body)

    found.verdict(f"{ORIGIN}/{path}", "Bot")
    found.crawl_delay("Bot")


# ---- the shelf ----------------------------------------------------------------------------------


def rules_of(origin: str, text: bytes = b"User-agent: *\nDisallow: /") -> SiteRules:
    return SiteRules(origin, RobotsCopy(status=200, text=text))


def test_rules_stay_until_their_time():
    shelf = RulesShelf()
    shelf.put(rules_of("a"), 1_000)

    assert shelf.get("a", 999) is not None
    assert shelf.get("a", 1_000) is None
    assert shelf.get("b", 0) is None
    assert len(shelf) == 0


def test_the_least_asked_for_goes_first():
    shelf = RulesShelf(max_sites=2)
    shelf.put(rules_of("a"), 9)
    shelf.put(rules_of("b"), 9)
    shelf.get("a", 0)
    shelf.put(rules_of("c"), 9)

    assert [shelf.get(name, 0) is not None for name in "abc"] == [True, False, True]


def test_large_files_leave_room_for_few():
    shelf = RulesShelf(max_bytes=4_000_000)
    large = repeated("Disallow: /%", MAX_BYTES - 100).encode()
    for n in range(3):
        shelf.put(rules_of(f"s{n}", large), 9)
    shelf.put(rules_of("s2"), 9)

    assert len(shelf) == 1
    for n in range(100):
        shelf.put(rules_of(f"t{n}"), 9)
    assert len(shelf) == 101


@pytest.fixture
def parsed(monkeypatch):
    """Return a list that records each parsed text, in order."""
    texts, parse = [], Protego.parse

    def counted(text):
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(Protego, "parse", counted)
    return texts


def test_the_rules_of_the_last_few_products_are_kept_parsed(parsed):
    found = site("User-agent: *\nDisallow: /")
    bots = [f"bot{'x' * n}" for n in range(50)]
    for bot in [*bots, *bots[-3:], *bots[-3:]]:
        assert not found.verdict(PAGE, bot).allowed
        assert found.crawl_delay(bot.upper()) is None
    assert len(parsed) == len(bots)

    found.verdict(PAGE, bots[0])

    assert len(parsed) == len(bots) + 1


def test_threads_that_ask_at_once_have_it_parsed_once(parsed):
    found = site(repeated("Disallow: /a%", MAX_BYTES // 20))
    together = Barrier(8)

    def asks():
        together.wait(60)
        return found.verdict(PAGE, "bot").allowed

    with ThreadPoolExecutor(8) as threads:
        allowed = [one.result(60) for one in [threads.submit(asks) for _ in range(8)]]

    assert allowed == [True] * 8
    assert len(parsed) == 1


# ---- what is kept of a long file ----------------------------------------------------------------


def noise(rules: int) -> str:
    """Rules that no compression makes small."""
    return "".join(f"Disallow: /{random.randbytes(30).hex()}\n" for _ in range(rules))


def long_file(**groups: str) -> RobotsCopy:
    said = "".join(f"User-agent: {name}\n{rules}\n" for name, rules in groups.items())
    text = f"# long\nSitemap: {ORIGIN}/map.xml\nUser-agent: other\n{noise(2_000)}\n{said}"
    return RobotsCopy(status=200, text=text.encode(), fetched_ms=7)


def kept_site(copy: RobotsCopy, *products: str) -> tuple[RobotsCopy, SiteRules]:
    kept = kept_copy(copy, *products[:1], products[1:])
    assert len(packed(kept.text)) <= MAX_KEPT_BYTES
    return kept, SiteRules(ORIGIN, kept)


def test_a_short_file_is_kept_as_it_is():
    copy = RobotsCopy(status=200, text=b"# hello\nUser-agent: other\nDisallow: /\n" * 1_000)

    assert kept_copy(copy, "Acme") is copy


def test_of_a_long_file_our_groups_and_those_for_all_are_kept():
    copy = long_file(**{"Acme": "Disallow: /acme", "*": "Disallow: /all\nCrawl-delay: 9"})
    kept, rules = kept_site(copy, "Acme", "plain", "")

    assert (kept.products, kept.too_long, kept.fetched_ms) == (("acme", "plain", ""), (), 7)
    assert len(kept.text) < 200
    assert rules.verdict(f"{ORIGIN}/all", "acme").allowed
    assert not rules.verdict(f"{ORIGIN}/acme", "ACME").allowed
    assert not rules.verdict(f"{ORIGIN}/all", "plain").allowed
    assert (rules.crawl_delay("plain"), rules.crawl_delay("Acme")) == (9, None)


def test_what_a_long_file_says_to_others_is_not_known_from_what_is_kept():
    _, rules = kept_site(long_file(Acme="Disallow: /acme", other2="Disallow: /"), "Acme")
    verdict = rules.verdict(PAGE, "Other2")

    assert not rules.covers("other2")
    assert (verdict.allowed, verdict.unknown) == (False, True)
    assert rules.crawl_delay("other2") is None
    assert rules.covers("acme")


def test_a_group_that_is_longer_than_what_is_kept_allows_nothing_and_says_so():
    copy = long_file(**{"Acme": noise(3_000), "small": "Disallow: /s", "*": noise(3_000)})
    kept, rules = kept_site(copy, "Acme", "small", "plain")

    assert kept.too_long == ("acme", "*")
    for product in ("Acme", "plain"):
        verdict = rules.verdict(f"{ORIGIN}/x", product)
        assert (verdict.allowed, verdict.unknown) == (False, False)
        assert "16 KiB that are kept of it" in verdict.why
        assert rules.verdict(f"{ORIGIN}/robots.txt", product).allowed
    assert rules.verdict(f"{ORIGIN}/x", "small").allowed
    assert not rules.verdict(f"{ORIGIN}/s", "small").allowed


def test_where_no_group_fits_nothing_is_allowed():
    kept, rules = kept_site(long_file(**{"*": noise(9_000)}), "Acme")

    assert kept.text == b""
    assert not rules.verdict(f"{ORIGIN}/x", "Acme").allowed


def test_no_more_products_are_kept_than_there_is_room_for_the_latest_first():
    kept, _ = kept_site(long_file(), "new", *(f"p{n}" for n in range(20)))

    assert kept.products == ("new", *(f"p{n}" for n in range(7)))


@pytest.mark.parametrize("status", [0, 404, 503])
def test_of_what_was_no_file_nothing_is_left_out(status):
    copy = RobotsCopy(status=status, text=random.randbytes(30_000))

    assert kept_copy(copy, "Acme") is copy
