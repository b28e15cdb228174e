"""Which bizs there are, over memory and a real Redis."""

from tests.kit.implementations import fixture_over
from tests.kit.kernel import Lane
from tests.kit.recovery import Bizs

bizs = fixture_over(Bizs)


def test_a_biz_that_was_told_is_there_and_another_is_not(bizs, lane):
    assert bizs.tell({lane.tenant: [lane, Lane(lane.tenant, "news", "main")]}) == []

    assert bizs.ask(lane) == (True, [])
    assert bizs.ask(Lane(lane.tenant, "nobiz", "main")) == (False, sorted([lane.biz, "news"]))
    assert bizs.tell({lane.tenant: [lane, Lane(lane.tenant, "news", "main")]}) == []


def test_what_was_asked_for_before_anything_was_told_is_told_back(bizs, lane):
    asked = Lane(lane.tenant, "nobiz", "side")

    assert bizs.ask(asked) == (None, [])
    assert bizs.ask(lane) == (None, [])
    assert bizs.tell({lane.tenant: [lane]}) == [asked]
    assert bizs.ask(asked) == (False, [lane.biz])


def test_a_biz_that_is_gone_is_told_back_until_it_is_there_again(bizs, lane):
    news = Lane(lane.tenant, "news", "side")
    bizs.tell({lane.tenant: [lane, news]})

    for _ in range(2):
        assert bizs.tell({lane.tenant: [lane]}) == [news]
    assert bizs.ask(news) == (False, [lane.biz])
    assert bizs.tell({lane.tenant: [lane, news]}) == []
    assert bizs.ask(news) == (True, [])


def test_what_is_gone_can_be_read_without_telling_anything(bizs, lane):
    news = Lane(lane.tenant, "news", "side")
    bizs.tell({lane.tenant: [lane, news]})

    assert bizs.gone({lane.tenant: [lane]}) == [news]
    assert bizs.ask(news) == (True, []), "nothing was told"
    assert bizs.gone({lane.tenant: [lane, news]}) == bizs.gone({}) == []
    assert bizs.tell({lane.tenant: [lane]}) == bizs.gone({lane.tenant: [lane]}) == [news]


def test_tenants_are_told_apart(bizs, lane):
    other = Lane(lane.tenant + "b", "theirs", "main")
    bizs.tell({lane.tenant: [lane], other.tenant: [other]})

    assert bizs.ask(Lane(lane.tenant, "theirs", "main")) == (False, [lane.biz])
    assert bizs.tell({lane.tenant: [lane]}) == []
    assert bizs.ask(other) == (True, [])


def test_a_tenant_without_bizs_says_nothing_of_any(bizs, lane):
    assert bizs.tell({lane.tenant: []}) == []
    assert bizs.ask(lane) == (None, [])
    assert bizs.tell({}) == []
