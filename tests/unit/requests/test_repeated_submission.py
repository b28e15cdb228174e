"""A submission that comes again, however often and whatever happened in between, is one."""

from datetime import timedelta

import pytest

from tests.kit.kernel import InvalidRequestError, KeyReusedError, StoreUnavailableError
from tests.kit.requests import Accepted, Inserted, Receipt, Refused
from tests.kit.worlds.crashes import DiedError
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.memory import DOCS, OTHER, RULE, make_biz, make_tree
from tests.unit.crawling.politeness.sending import EDITED, edit_rules, entry, ids, send, stored


def test_a_call_repeated_under_its_key_gets_the_same_ids_and_stores_nothing_more(world):
    first = send(world, entry(1), entry(2), key="k")
    world.now += timedelta(days=6)

    again = send(world, entry(1), entry(2), key="k")

    assert ids(again) == ids(first)
    assert [receipt.repeated for receipt in first + again] == [False, False, True, True]
    assert stored(world) == 2
    assert world.queue.depth(DOCS).queued == 2


def test_a_request_has_the_job_of_its_entry(world):
    [kept, alone] = send(world, entry(1, "a", job="spring"), entry(2), key="k")

    jobs = [world.store.get(DOCS, world.biz, receipt.id).request.job for receipt in (kept, alone)]
    assert jobs == ["spring", None]


def test_without_a_key_every_call_is_another_one(world):
    first, again = send(world, entry(1)), send(world, entry(1))

    assert ids(first) != ids(again)
    assert stored(world) == 2


def test_a_key_is_its_tenants_alone(world):
    first = send(world, entry(1), key="k")

    other = send(world, entry(9), key="k", tenant="acme")

    assert not other[0].repeated
    assert world.store.get(OTHER, world.biz, other[0].id).request.body.url.endswith("/9")
    assert world.store.get(OTHER, world.biz, first[0].id) is None


@pytest.mark.parametrize(
    "other", [[entry(2)], [entry(1), entry(1)], [entry(1, params={"q": "x"})], [entry(1, "c")]]
)
def test_a_key_that_stands_for_another_call_refuses_the_whole_call(world, other):
    send(world, entry(1), key="k-1")

    with pytest.raises(KeyReusedError, match=r"Idempotency-Key 'k-1'"):
        send(world, *other, key="k-1")

    assert stored(world) == 1


def test_an_entry_with_a_client_id_is_one_whatever_call_it_comes_in(world):
    first = send(world, entry(1, "a"), entry(2, "b"))

    again = send(world, entry(3), entry(2, "b"), entry(1, "a"), key="k")

    assert ids(again)[1:] == ids(first)[::-1]
    assert [receipt.repeated for receipt in again] == [False, True, True]
    assert stored(world) == 3


def test_the_client_id_decides_where_there_is_a_key_too(world):
    first = send(world, entry(1, "a"), entry(2), key="k")

    again = send(world, entry(1, "a"), entry(2), key="k")
    alone = send(world, entry(1, "a"), key="another")

    assert ids(again) == ids(first)
    assert ids(alone) == ids(first)[:1]
    assert stored(world) == 2


def test_a_client_id_that_stands_for_another_entry_refuses_that_one_only(world):
    send(world, entry(1, "a"))

    refused, accepted = send(world, entry(2, "a"), entry(3, "b"))

    assert isinstance(refused.error, KeyReusedError)
    assert str(refused.error).startswith("requests[0].client_id: 'a'")
    assert isinstance(accepted, Accepted)
    assert stored(world) == 2


def test_equal_entries_of_one_batch_with_one_client_id_are_one(world):
    receipts = send(world, entry(1, "a"), entry(2), entry(1, "a"))

    assert receipts[0].id == receipts[2].id != receipts[1].id
    assert [receipt.repeated for receipt in receipts] == [False, False, True]
    assert stored(world) == 2


def test_another_entry_of_one_batch_with_the_same_client_id_is_refused(world):
    first, second = send(world, entry(1, "a"), entry(2, "a"))

    assert isinstance(first, Accepted)
    assert [p.field for p in second.error.problems] == ["requests[1].client_id"]
    assert "requests[0]" in second.error.problems[0].message
    assert stored(world) == 1


def test_a_duplicate_of_a_refused_entry_is_refused_with_it(world):
    receipts = send(world, entry(1, "a", url="ftp://x/"), entry(1, "a", url="ftp://x/"))

    assert [type(receipt) for receipt in receipts] == [Refused, Refused]


def test_refused_entries_keep_the_positions_of_the_others(world):
    wrong = InvalidRequestError.of("requests[0].url", "is missing")
    call = [wrong, entry(1), entry(2, url="ftp://x/"), entry(3)]

    first = send(world, *call, key="k")
    again = send(world, *call, key="k")

    assert [type(receipt) for receipt in again] == [Refused, Accepted, Refused, Accepted]
    assert ids(again[1::2]) == ids(first[1::2])
    assert stored(world) == 2


def test_a_call_of_which_nothing_was_admitted_leaves_its_key_free(world):
    send(world, entry(1, rule="no"), key="k")

    [receipt] = send(world, entry(1), key="k")

    assert isinstance(receipt, Accepted)
    assert not receipt.repeated


def test_what_was_refused_may_be_right_when_it_comes_again(world):
    call = [entry(1), entry(2, rule="new")]
    first = send(world, *call, key="k")
    edit_rules(world, page=RULE, new=EDITED)

    again = send(world, *call, key="k")
    third = send(world, *call, key="k")

    assert isinstance(first[1], Refused)
    assert [receipt.repeated for receipt in again] == [True, False]
    assert [receipt.repeated for receipt in third] == [True, True]
    assert ids(third) == ids(again)
    assert stored(world) == 2


def test_what_was_refused_is_not_stored_under_an_old_key(world):
    """The entry would have the age of the idempotency key, and expire with it."""
    call = [entry(1), entry(2, rule="new")]
    send(world, *call, key="k")
    edit_rules(world, page=RULE, new=EDITED)
    world.now += timedelta(seconds=world.biz.ttl_seconds * 0.6)

    again = send(world, *call, key="k")

    assert again[0].repeated
    assert isinstance(again[1].error, KeyReusedError)
    assert "new one" in str(again[1].error)
    assert stored(world) == 1


def test_a_rule_edited_between_the_tries_changes_nothing(world):
    """The first try wrote the key and nothing else."""
    with pytest.raises(StoreUnavailableError):
        send(world, entry(1), entry(2, "a"), key="k", store=Failing(world.store, insert=1))
    edit_rules(world, page=EDITED)

    receipts = send(world, entry(1), entry(2, "a"), key="k")

    for receipt in receipts:
        body = world.store.get(DOCS, world.biz, receipt.id).request.body
        assert body.rule_version == RULE.version
        assert world.rules.get_version(DOCS, "page", body.rule_version) == RULE


def test_a_rule_that_is_gone_since_keeps_nothing_from_being_finished(world):
    with pytest.raises(StoreUnavailableError):
        send(world, entry(1), key="k", store=Failing(world.store, insert=1))
    edit_rules(world, other=EDITED)

    [receipt] = send(world, entry(1), key="k")

    assert world.store.get(DOCS, world.biz, receipt.id).request.body.rule == "page"


def test_the_only_rule_of_a_biz_stays_the_one_of_the_first_try(world):
    unnamed = entry(1, rule=None)
    with pytest.raises(StoreUnavailableError):
        send(world, unnamed, key="k", store=Failing(world.store, insert=1))
    edit_rules(world, page=RULE, second=EDITED)

    [receipt] = send(world, unnamed, key="k")

    assert world.store.get(DOCS, world.biz, receipt.id).request.body.rule == "page"


def test_what_was_persisted_but_not_queued_is_queued_when_it_comes_again(world):
    class Dying:
        def announce(self, queues):
            """Do nothing: that is done."""

        def enqueue(self, queue_key, entries, now):
            raise DiedError

    with pytest.raises(DiedError):
        send(world, entry(1), key="k", queue=Dying())
    assert world.queue.depth(DOCS).queued == 0

    [receipt] = send(world, entry(1), key="k")

    assert receipt.repeated
    assert stored(world) == 1
    assert world.queue.depth(DOCS).queued == 1


def test_a_key_whose_requests_could_not_be_persisted_does_not_block_a_later_try(world):
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            send(world, entry(1), entry(2, "a"), key="k", store=Failing(world.store, insert=1))

    receipts = send(world, entry(1), entry(2, "a"), key="k")

    assert [receipt.repeated for receipt in receipts] == [False, False]
    assert stored(world) == 2


def test_a_key_that_never_came_to_anything_is_given_anew_when_it_is_old(world):
    """Under the first ids the requests would be as old as the key, and soon expire."""
    with pytest.raises(StoreUnavailableError):
        send(world, entry(1), entry(2, "a"), key="k", store=Failing(world.store, insert=1))
    world.now += timedelta(seconds=world.biz.ttl_seconds * 2)

    receipts = send(world, entry(1), entry(2, "a"), key="k")

    for receipt in receipts:
        tracked = world.store.get(DOCS, world.biz, receipt.id)
        assert tracked.request.queued_at == world.now
    assert ids(send(world, entry(1), entry(2, "a"), key="k")) == ids(receipts)


def test_an_old_key_that_was_not_closed_goes_on_with_what_is_stored(world):
    send(world, entry(1), entry(2, "a"), key="k", keys=Failing(world.keys, close=1))
    assert "looked up again" in world.warnings[0]
    world.now += timedelta(seconds=world.biz.ttl_seconds * 0.9)

    receipts = send(world, entry(1), entry(2, "a"), key="k")

    assert [receipt.repeated for receipt in receipts] == [True, True]
    assert stored(world) == 2


def test_requests_that_are_done_and_gone_are_not_stored_again_under_their_key(world):
    world.tree = make_tree(make_biz(ttl_seconds=60, expiry_grace_seconds=0))
    first = send(world, entry(1), entry(2, "a"), key="k")
    world.now += timedelta(hours=20)
    world.store.expire(DOCS, world.biz, world.now)
    assert world.store.get(DOCS, world.biz, first[0].id) is None

    again = send(world, entry(1), entry(2, "a"), key="k")

    assert ids(again) == ids(first)
    assert stored(world) == 0


def test_of_two_at_once_the_second_goes_on_with_the_ids_of_the_first(world):
    """The other one comes in when this one has found no key, and is done before it goes on."""
    others: list[list[Receipt]] = []

    class Racing:
        def open(self, queue_key, keyed, until):
            others.append(send(world, entry(1), entry(2, "a"), key="k"))
            edit_rules(world, page=EDITED)
            return world.keys.open(queue_key, keyed, until)

        def __getattr__(self, name):
            return getattr(world.keys, name)

    receipts = send(world, entry(1), entry(2, "a"), key="k", keys=Racing())

    assert ids(receipts) == ids(others[0])
    assert [receipt.repeated for receipt in receipts] == [True, True]
    assert stored(world) == 2


def test_of_two_different_ones_at_once_under_one_key_the_second_is_refused(world):
    class Racing:
        def __init__(self, *other, **how):
            self.other, self.how = other, how

        def open(self, queue_key, keyed, until):
            send(world, *self.other, **self.how)
            return world.keys.open(queue_key, keyed, until)

        def __getattr__(self, name):
            return getattr(world.keys, name)

    with pytest.raises(KeyReusedError):
        send(world, entry(1), key="k", keys=Racing(entry(2), key="k"))
    refused, accepted = send(world, entry(3, "a"), entry(4, "b"), keys=Racing(entry(5, "a")))

    assert isinstance(refused.error, KeyReusedError)
    assert isinstance(accepted, Accepted)
    assert stored(world) == 3


def test_one_node_away_costs_its_own_entries_only_and_the_next_try_completes_them(world):
    class HalfDown:
        def insert(self, queue_key, biz, requests, kept):
            world.store.insert(queue_key, biz, requests[1:])
            return Inserted(refused={requests[0].id: StoreUnavailableError("mongodb", "down")})

        def __getattr__(self, name):
            return getattr(world.store, name)

    call = [entry(1), entry(2), entry(3, "a")]
    first = send(world, *call, key="k", store=HalfDown())

    again = send(world, *call, key="k")

    assert isinstance(first[0], Refused)
    assert [receipt.repeated for receipt in again] == [False, True, True]
    assert ids(again)[1:] == ids(first[1:])
    assert stored(world) == 3


def test_an_entry_names_its_field_as_its_caller_wrote_it(world):
    send(world, entry(1, "a"), single=True)

    [receipt] = send(world, entry(2, "a"), single=True)

    assert str(receipt.error).startswith("client_id: 'a'")
