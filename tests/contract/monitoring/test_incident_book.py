"""The book of incidents, in memory and on a real MongoDB."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.kit.broken_servers import broken_server, closed_port
from tests.kit.implementations import Backend, backend_over
from tests.kit.incidents import (
    MOST,
    Acknowledgement,
    Desk,
    Handling,
    Incident,
    Kind,
    Life,
    MongoIncidentBook,
    NotificationState,
    Place,
    Sent,
    Silence,
    Word,
)
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import MongoNodes

NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE = timedelta(minutes=1)
TERM = timedelta(seconds=55)


class NodesOfOneTest(MongoNodes):
    """The home node of a stage that no other test has."""

    def __init__(self, uri: str, stage: str) -> None:
        super().__init__(lambda _: uri, lambda: "home")
        self._stage = stage

    def control(self, collection: str):
        return super().control(f"{self._stage}_{collection}")


backend = backend_over(MongoIncidentBook)


@pytest.fixture
def books(backend: Backend) -> Callable[[], MongoIncidentBook]:
    """The book of one stage, as each of its environments opens it."""
    return lambda: backend.another(MongoIncidentBook)


@pytest.fixture
def book(books: Callable[[], MongoIncidentBook]) -> MongoIncidentBook:
    return books()


def an_incident(number: int = 0, **changes: object) -> Incident:
    facts: dict = {
        "id": f"{number:024x}",
        "kind": Kind.BACKLOG,
        "place": Place(tenant="acme", biz=f"b{number}"),
        "life": Life.OPEN,
        "said": "12 wait, more than 10 \N{SNOWMAN}",
        "value": 12.0,
        "worst": 12.5,
        "threshold": 10.0,
        "since": NOW,
        "found_at": NOW,
        "looked_at": NOW,
        "opened_at": NOW + number * MINUTE,
        "people": NotificationState(
            owed=Word.REMINDER, notified=Word.OPENED, notified_at=NOW, reminders=2
        ),
        "phones": NotificationState(tried=True, owed=Word.OPENED),
        "machines": NotificationState(notified=Word.OPENED, notified_at=NOW),
    }
    return Incident(**{**facts, **changes})


def test_a_new_book_is_empty(book: MongoIncidentBook):
    assert (book.read().incidents, book.read().desk) == ((), Desk())
    assert book.find(None, open_only=False, before=None, limit=10) == []


def test_another_environment_reads_what_one_has_written(books: Callable[[], MongoIncidentBook]):
    desk = Desk(
        people=Sent(sent_at=(NOW, NOW + MINUTE), summed_at=NOW), phones=Sent(sent_at=(NOW,))
    )
    incidents = [an_incident(n) for n in range(3)]

    books().write(incidents, desk)

    found = books().read()
    assert sorted(found.incidents, key=lambda each: each.id) == incidents
    assert found.desk == desk


def test_what_is_written_again_takes_the_place_of_what_was(book: MongoIncidentBook):
    book.write([an_incident(1)], Desk())
    later = an_incident(1, said="13 wait", life=Life.OVER, over_at=NOW + MINUTE)

    book.write([later], Desk())

    assert book.read().incidents == (later,)


def test_one_thing_is_never_two_incidents(book: MongoIncidentBook):
    book.write([an_incident(1)], Desk())
    again = replace(an_incident(1), id="f" * 24)

    book.write([again], Desk())

    assert book.read().incidents == (again,)


def test_what_is_past_is_kept_for_people_and_not_read_for_the_next_look(book: MongoIncidentBook):
    over = an_incident(1, life=Life.OVER, over_at=NOW + MINUTE)
    book.write([over, an_incident(2)], Desk())

    book.write([], Desk(), [over])
    book.write([], Desk(), [over])  # once more, by one that died in the middle

    assert book.read().incidents == (an_incident(2),)
    assert book.find(None, open_only=False, before=None, limit=9) == [an_incident(2), over]
    assert book.find(None, open_only=True, before=None, limit=9) == [an_incident(2)]


def test_what_was_only_suspected_leaves_nothing_behind(book: MongoIncidentBook):
    suspected = an_incident(1, life=Life.SUSPECTED, opened_at=None)
    book.write([suspected], Desk())
    assert book.read().incidents == (suspected,)
    assert book.find(None, open_only=False, before=None, limit=9) == []

    book.write([], Desk(), [suspected])

    assert book.read().incidents == ()
    assert book.find(None, open_only=False, before=None, limit=9) == []


def test_the_past_of_a_thing_that_is_back_does_not_end_what_it_is_now(book: MongoIncidentBook):
    old = an_incident(1, life=Life.OVER, over_at=NOW)
    new = replace(an_incident(1), id="f" * 24)

    book.write([new], Desk(), [old])

    assert book.read().incidents == (new,)
    assert len(book.find(None, open_only=False, before=None, limit=9)) == 2


def test_tenants_find_their_own_and_nobody_elses(book: MongoIncidentBook):
    mine = an_incident(1)
    theirs = an_incident(2, place=Place(tenant="rival", biz="docs"))
    ours = an_incident(3, kind=Kind.PART_DOWN, place=Place(part="redis", name="redis"))
    over = an_incident(4, place=Place(tenant="rival", biz="shop"), life=Life.OVER, over_at=NOW)
    book.write([mine, theirs, ours, over], Desk())
    book.write([], Desk(), [over])

    assert book.find(["acme"], open_only=False, before=None, limit=9) == [mine]
    assert book.find(["rival"], open_only=False, before=None, limit=9) == [over, theirs]
    assert book.find([""], open_only=False, before=None, limit=9) == [ours]
    assert book.find([], open_only=False, before=None, limit=9) == []
    assert len(book.find(None, open_only=False, before=None, limit=9)) == 4


def test_pages_follow_each_other_without_a_gap_also_within_one_moment(book: MongoIncidentBook):
    incidents = [an_incident(n, opened_at=NOW + (n // 3) * MINUTE) for n in range(9)]
    book.write(incidents, Desk())
    past = [replace(each, life=Life.OVER, over_at=NOW) for each in incidents[:4]]
    book.write([], Desk(), past)

    seen, before = [], None
    while page := book.find(None, open_only=False, before=before, limit=2):
        seen += [each.id for each in page]
        before = (int(page[-1].opened_at.timestamp() * 1000), page[-1].id)

    assert seen == [each.id for each in reversed(incidents)]


def test_a_storm_of_as_many_as_are_followed_is_written_and_read_in_time(book: MongoIncidentBook):
    storm = [an_incident(n, said="w" * 500) for n in range(MOST)]

    book.write(storm, Desk())
    book.write([replace(each, value=13.0) for each in storm], Desk())

    found = book.read().incidents
    assert len(found) == MOST
    assert {each.value for each in found} == {13.0}
    book.write([], Desk(), found)
    assert book.read().incidents == ()


def test_one_holder_at_a_time_has_the_lock(books: Callable[[], MongoIncidentBook]):
    one, other = books(), books()

    assert one.acquire_lock("one", NOW, TERM)
    assert not other.acquire_lock("other", NOW + TERM / 2, TERM)
    assert one.acquire_lock("one", NOW + TERM / 2, TERM)
    one.release_lock("one")
    assert other.acquire_lock("other", NOW + TERM / 2, TERM)


def test_the_lock_of_a_vanished_holder_expires(books: Callable[[], MongoIncidentBook]):
    assert books().acquire_lock("gone", NOW, TERM)

    assert books().acquire_lock("next", NOW + TERM, TERM)
    books().release_lock("gone")
    assert not books().acquire_lock("third", NOW + TERM, TERM)


def test_writing_does_not_touch_the_lock(books: Callable[[], MongoIncidentBook]):
    book = books()
    book.write([an_incident()], Desk())
    assert book.acquire_lock("one", NOW, TERM)

    book.write([an_incident()], Desk(people=Sent(sent_at=(NOW,))))

    assert not books().acquire_lock("other", NOW, TERM)
    assert books().read().desk == Desk(people=Sent(sent_at=(NOW,)))


def test_an_incident_is_found_by_its_id_by_those_who_may_read_it(book: MongoIncidentBook):
    book.write([an_incident(1), an_incident(2, opened_at=None, life=Life.SUSPECTED)], Desk())

    assert book.open_one(["acme"], f"{1:024x}") == an_incident(1)
    assert book.open_one(None, f"{1:024x}") == an_incident(1)
    assert book.open_one(["rival", ""], f"{1:024x}") is None
    assert book.open_one(None, f"{2:024x}") is None
    assert book.open_one(None, "none") is None


def test_a_handling_is_kept_by_what_is_wrong_and_taken_back(
    books: Callable[[], MongoIncidentBook],
):
    one, other = an_incident(1), an_incident(2)
    books().write([one, other], Desk())
    said = Acknowledgement(by="acme", at=NOW, why="at it \N{SNOWMAN}", incident=one.id, returns=1)
    quiet = Silence(by="ops", at=NOW, until=NOW + 2 * MINUTE)

    assert books().handle(one, said) == Handling(key=one.key, acknowledged=said)
    both = Handling(key=one.key, acknowledged=said, silenced=quiet)
    assert books().handle(one, quiet) == both
    assert books().handlings([one.key, other.key]) == {one.key: both}
    assert books().handlings([]) == {}

    ended = Silence(by="ops", at=NOW, until=NOW + MINUTE)
    for now in (NOW + MINUTE, NOW + 2 * MINUTE):
        assert books().unsilence(one, now) == Handling(key=one.key, silenced=ended)
    assert books().unsilence(other, NOW) is None


def test_a_later_handling_takes_the_place_of_an_earlier_one(book: MongoIncidentBook):
    one = an_incident(1)
    first = Silence(by="acme", at=NOW, until=NOW + MINUTE)
    later = Silence(by="ops", at=NOW + MINUTE, why="longer", until=NOW + 9 * MINUTE)

    book.handle(one, first)

    assert book.handle(one, later) == Handling(key=one.key, silenced=later)


@pytest.fixture
def nodes(mongo_uri: str, tenant: str) -> Iterator[NodesOfOneTest]:
    """Yield nodes for tests that read the stored documents."""
    opened = NodesOfOneTest(mongo_uri, tenant)
    try:
        yield opened
    finally:
        opened.close()


def test_the_past_is_kept_for_three_months(nodes: NodesOfOneTest):
    MongoIncidentBook(nodes).write([], Desk(), [an_incident(life=Life.OVER, over_at=NOW)])
    indexes = nodes.control("incidents_past").index_information()

    assert indexes["ttl"]["key"] == [("over_at", 1)]
    assert indexes["ttl"]["expireAfterSeconds"] == 90 * 24 * 3600


def test_handlings_are_forgotten_three_months_after_the_last_word(nodes: NodesOfOneTest):
    MongoIncidentBook(nodes).handle(an_incident(), Silence(by="acme", at=NOW, until=NOW + MINUTE))
    indexes = nodes.control("incident_handlings").index_information()

    assert indexes["ttl"]["key"] == [("at", 1)]
    assert indexes["ttl"]["expireAfterSeconds"] == 90 * 24 * 3600


def test_a_handling_that_another_version_wrote_is_left_alone(
    nodes: NodesOfOneTest, caplog: pytest.LogCaptureFixture
):
    nodes.control("incident_handlings").insert_one({"_id": "strange", "silenced": "of tomorrow"})

    assert MongoIncidentBook(nodes).handlings(["strange"]) == {}
    assert "a handling cannot be read" in caplog.text


def test_what_another_version_wrote_is_left_alone(
    nodes: NodesOfOneTest, caplog: pytest.LogCaptureFixture
):
    book = MongoIncidentBook(nodes)
    book.write([an_incident(1)], Desk())
    nodes.control("incidents").insert_one({"_id": "strange", "kind": "of_tomorrow"})

    assert book.read().incidents == (an_incident(1),)
    assert "an incident cannot be read" in caplog.text


def test_a_measure_that_another_version_wrote_begins_anew(
    nodes: NodesOfOneTest, caplog: pytest.LogCaptureFixture
):
    book = MongoIncidentBook(nodes)
    book.write([an_incident(1)], Desk())
    nodes.control("incident_desk").update_one({}, {"$set": {"people": "of tomorrow"}})

    assert book.read().incidents == (an_incident(1),)
    assert book.read().desk == Desk()
    book.write([], Desk(people=Sent(sent_at=(NOW,))))
    assert book.read().desk == Desk(people=Sent(sent_at=(NOW,)))
    assert "what has been sent cannot be read" in caplog.text


@pytest.mark.parametrize("server", [closed_port, lambda: broken_server(None)])
def test_a_home_node_that_is_away_or_mute_is_reported_soon(server, tenant: str):
    with server() as address:
        nodes = NodesOfOneTest(f"mongodb://{address}/?serverSelectionTimeoutMS=300", tenant)
        book = MongoIncidentBook(nodes)
        try:
            for call in (
                lambda: book.acquire_lock("one", NOW, TERM),
                book.read,
                lambda: book.write([an_incident()], Desk()),
                lambda: book.release_lock("one"),
                lambda: book.handlings(["one"]),
                lambda: book.unsilence(an_incident(), NOW),
                lambda: book.open_one(None, "one"),
                lambda: book.handle(an_incident(), Silence(by="acme", at=NOW, until=NOW + MINUTE)),
            ):
                with pytest.raises(StoreUnavailableError):
                    call()
        finally:
            nodes.close()
