"""Seeds that are no plain GET of a page: a POST by its body, and a link that is to be repeated."""

import pytest
from msgspec.structs import replace

from tests.kit.frontier import LARGEST_SEED, SeedSpec
from tests.kit.worlds.frontier import SeedWorld, a_spec


@pytest.fixture
def world() -> SeedWorld:
    return SeedWorld()


def accepted(answers):
    return [each.accepted for each in answers]


def a_post(body: str | None = "q=1", **changes: object) -> SeedSpec:
    return a_spec(1, method="POST", body=body, **changes)


def test_a_post_is_a_seed_by_its_method_and_body(world):
    first = world.add(1, a_post(), a_post("q=2"), a_spec(1, method="PUT", body="q=1"))
    again = world.add(1, a_post(), a_post("q=2"), a_spec(1, method="PUT", body="q=1"))

    assert accepted(first) == [True] * 4
    assert accepted(again) == [False] * 4
    assert len({one.key for one in first}) == 4


def test_the_request_of_a_post_is_that_post(world):
    world.add(a_post(headers={"Content-Type": "application/x-www-form-urlencoded"}))

    world.dispatch()

    [tracked] = world.requests()
    body = tracked.request.body
    assert (body.method, body.body) == ("POST", "q=1")
    assert body.headers == {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (a_spec(1, method="DELETE"), "method"),
        (a_spec(1, body="q=1"), "body"),
        (a_spec(1, method="HEAD", body="q=1"), "body"),
        (a_post("x" * LARGEST_SEED), "body"),
        (a_spec(1, meta={"scrapy": '{"callback": "parse"}'}), "meta.scrapy"),
        (a_post("x", meta={"x": "y" * LARGEST_SEED}), "meta"),
    ],
)
def test_what_can_be_no_such_request_is_refused_by_its_field(world, spec, field):
    [answer] = world.add(spec)

    assert not answer.accepted
    assert answer.why.startswith(f"{field}: ")
    assert world.kept() == []


def test_a_link_to_be_repeated_is_accepted_though_its_page_is_known(world):
    world.add(1)
    link = a_spec(1, repeat=True, found_by=7)

    [answer] = world.add(link)

    assert answer.accepted
    assert len(world.kept()) == 2


def test_it_is_one_seed_however_often_its_page_is_done_and_another_of_another_page(world):
    link = a_spec(1, repeat=True, found_by=7)
    world.add(link)

    answers = world.add(link, replace(link, found_by=8), replace(link, meta={"scrapy": "other"}))

    assert accepted(answers) == [False, True, True]


def test_a_page_that_was_read_for_a_repeated_link_alone_is_still_new(world):
    world.add(a_spec(1, repeat=True, found_by=7))

    assert accepted(world.add(1)) == [True]
