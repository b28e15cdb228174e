"""Contract tests of the registry of bizs, over memory and a real Redis."""

from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey
from tests.kit.recovery import RedisBizs

bizs = fixture_over(RedisBizs)


def test_a_biz_that_was_reported_is_there_and_another_is_not(bizs, queue_key):
    assert (
        bizs.report({queue_key.tenant: [queue_key, QueueKey(queue_key.tenant, "news", "main")]})
        == []
    )

    assert bizs.ask(queue_key) == (True, [])
    assert bizs.ask(QueueKey(queue_key.tenant, "nobiz", "main")) == (
        False,
        sorted([queue_key.biz, "news"]),
    )
    assert (
        bizs.report({queue_key.tenant: [queue_key, QueueKey(queue_key.tenant, "news", "main")]})
        == []
    )


def test_what_was_asked_for_before_anything_was_reported_is_reported_back(bizs, queue_key):
    asked = QueueKey(queue_key.tenant, "nobiz", "side")

    assert bizs.ask(asked) == (None, [])
    assert bizs.ask(queue_key) == (None, [])
    assert bizs.report({queue_key.tenant: [queue_key]}) == [asked]
    assert bizs.ask(asked) == (False, [queue_key.biz])


def test_a_biz_that_is_gone_is_reported_back_until_it_is_there_again(bizs, queue_key):
    news = QueueKey(queue_key.tenant, "news", "side")
    bizs.report({queue_key.tenant: [queue_key, news]})

    for _ in range(2):
        assert bizs.report({queue_key.tenant: [queue_key]}) == [news]
    assert bizs.ask(news) == (False, [queue_key.biz])
    assert bizs.report({queue_key.tenant: [queue_key, news]}) == []
    assert bizs.ask(news) == (True, [])


def test_what_is_gone_can_be_read_without_reporting_anything(bizs, queue_key):
    news = QueueKey(queue_key.tenant, "news", "side")
    bizs.report({queue_key.tenant: [queue_key, news]})

    assert bizs.gone({queue_key.tenant: [queue_key]}) == [news]
    assert bizs.ask(news) == (True, []), "nothing was told"
    assert bizs.gone({queue_key.tenant: [queue_key, news]}) == bizs.gone({}) == []
    assert (
        bizs.report({queue_key.tenant: [queue_key]})
        == bizs.gone({queue_key.tenant: [queue_key]})
        == [news]
    )


def test_tenants_are_distinguished(bizs, queue_key):
    other = QueueKey(queue_key.tenant + "b", "theirs", "main")
    bizs.report({queue_key.tenant: [queue_key], other.tenant: [other]})

    assert bizs.ask(QueueKey(queue_key.tenant, "theirs", "main")) == (False, [queue_key.biz])
    assert bizs.report({queue_key.tenant: [queue_key]}) == []
    assert bizs.ask(other) == (True, [])


def test_a_tenant_without_bizs_says_nothing_of_any(bizs, queue_key):
    assert bizs.report({queue_key.tenant: []}) == []
    assert bizs.ask(queue_key) == (None, [])
    assert bizs.report({}) == []
