"""Requests listed by page, job and state, from either end of time, through the real router."""

from tests.functions.http import ask
from tests.kit.worlds.functions import World

REQUESTS = "/v1/docs/requests"
PAGE = "https://example.org/a?b=1&c=2"
SAME = "https://EXAMPLE.org/a?c=2&b=1&utm_source=mail#top"


def submitted(world: World, url: str, **of: object) -> str:
    return ask(world, "POST", REQUESTS, {"url": url, **of}).json["id"]


def listed(world: World, **query: str) -> list[str]:
    found, cursor, more = [], {}, True
    while more:
        page = ask(world, "GET", REQUESTS, query={"limit": "2", **query, **cursor}).json
        found += [one["id"] for one in page["requests"]]
        cursor, more = {"cursor": page["cursor"]}, page["more"]
    return found


def test_the_requests_of_a_page_are_found_by_any_url_of_it(world: World) -> None:
    first = submitted(world, PAGE, job="may")
    others = [submitted(world, f"https://example.org/{n}", job="june") for n in range(5)]
    again = submitted(world, SAME, job="june")

    assert listed(world, url=SAME) == listed(world, url=PAGE) == [first, again]
    assert listed(world, url=PAGE, order="newest") == [again, first]
    assert listed(world, url=PAGE, job="june", state="pending") == [again]
    assert listed(world, url=PAGE, state="done") == []
    assert listed(world, order="newest") == [again, *others[::-1], first]
    assert listed(world, job="june", order="newest") == [again, *others[::-1]]


def test_what_is_no_url_or_no_order_is_named_and_a_cursor_keeps_its_order(world: World) -> None:
    for at in range(3):
        submitted(world, f"https://example.org/{at}")

    for wrong in ({"url": "example"}, {"url": "https://"}, {"order": "random"}):
        answer = ask(world, "GET", REQUESTS, query=wrong)
        assert (answer.status, answer.json["errors"][0]["field"]) == (400, *wrong)
    cursor = ask(world, "GET", REQUESTS, query={"limit": "1", "order": "newest"}).json["cursor"]
    other = ask(world, "GET", REQUESTS, query={"cursor": cursor})
    assert (other.status, other.json["errors"][0]["field"]) == (400, "cursor")
