"""However tries of a submission crash, are cut off and meet: each entry is stored once."""

from contextlib import suppress
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.kernel import StoreUnavailableError
from tests.kit.requests import Accepted, Receipt, Submission
from tests.kit.worlds.crashes import DiedError, Trouble
from tests.kit.worlds.memory import DOCS, RULE, World
from tests.unit.crawling.politeness.sending import EDITED, edit_rules, entry, send

#: Two calls that share entries: one under a key, one with client ids alone.
CALLS: dict[str | None, list[Submission]] = {
    "k": [entry(0), entry(1), entry(2, "a"), entry(3, "b")],
    None: [entry(3, "b"), entry(4, "c"), entry(2, "a"), entry(4, "c")],
}


TRIES = st.tuples(
    st.sampled_from(sorted(CALLS, key=str)),
    st.integers(1, 11),
    st.sampled_from(["dies before", "dies after", "away", "unanswered", "another meanwhile"]),
    st.sampled_from(sorted(CALLS, key=str)),
    st.booleans(),
    st.integers(0, 100_000),
)


@examples(2)
@given(tries=st.lists(TRIES, max_size=6))
def test_however_tries_crash_and_meet_each_entry_is_stored_once_under_one_id(tries):
    world = World()
    known: dict[str, set] = {}

    def note(key: str | None, receipts: list[Receipt]) -> None:
        for one, receipt in zip(CALLS[key], receipts, strict=True):
            if isinstance(receipt, Accepted):
                known.setdefault(one.url, set()).add(receipt.id)

    for key, at, what, other, edited, seconds in tries:
        trouble = Trouble(
            at, what, lambda other=other: note(other, send(world, *CALLS[other], key=other))
        )
        if edited:
            edit_rules(world, page=EDITED if world.biz.rules["page"] == RULE else RULE)
        names = ("ids", "store", "queue", "rules", "keys", "intake", "workers")
        ports = {name: trouble.around(getattr(world, name)) for name in names}
        with suppress(DiedError, StoreUnavailableError):
            note(key, send(world, *CALLS[key], key=key, **ports))
        world.now += timedelta(seconds=seconds)
    for key, call in CALLS.items():
        note(key, send(world, *call, key=key))

    found = world.store.find(DOCS, world.biz, limit=99, now=world.now)
    assert sorted(t.request.body.url for t in found) == sorted(known)
    assert {
        url: {t.request.id for t in found if t.request.body.url == url} for url in known
    } == known
    assert all(len(given) == 1 for given in known.values())
    for tracked in found:
        body = tracked.request.body
        assert world.rules.get_version(DOCS, body.rule, body.rule_version) is not None


def test_the_ports_of_a_submission_are_called_no_more_often_than_the_trouble_reaches(world):
    """Else the property above would not look at the last steps."""
    trouble = Trouble(10**6, "", lambda: None)
    names = ("ids", "store", "queue", "rules", "keys", "intake", "workers")
    ports = {name: trouble.around(getattr(world, name)) for name in names}

    send(world, *CALLS["k"], key="k", **ports)

    assert 10**6 - trouble.at <= 11
