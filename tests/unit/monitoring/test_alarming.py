"""The alarming flow over a book and a notifier in memory, well, away, slow and half done."""

import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.incidents import MemoryNotifier
from tests.kit.incidents import (
    PATIENCE,
    Bulletin,
    Kind,
    Life,
    Notification,
    Room,
    Word,
    list_incidents,
)
from tests.kit.kernel import (
    ConfigError,
    MessageRefusedError,
    Problem,
    StoreUnavailableError,
    metric_names,
)
from tests.kit.monitoring import HostSample
from tests.kit.worlds.alarms import BIZS, OPENED, RECOVERED, Stand
from tests.kit.worlds.incidents import MINUTE


@pytest.fixture
def stand() -> Stand:
    return Stand()


def test_an_incident_is_reported_once_and_so_is_its_end(stand: Stand):
    for late in (["b0"], ["b0"], ["b0"], [], [], []):
        stand.evaluate(*late)

    assert stand.words() == [OPENED, RECOVERED]
    assert [bulletin.tenant for bulletin in stand.sent.bulletins] == ["acme", "acme"]
    assert "acme/b0" in stand.subjects[0]


def test_each_kind_of_finding_is_a_metric_of_the_stage(stand: Stand):
    stand.evaluate("b0")

    assert stand.metrics.value("FindingOldestWaiting") == [1]
    assert stand.metrics.value("FindingPartDown") == [0]
    emitted = {metric.name for metric, dimensions, _ in stand.metrics.put_metrics if not dimensions}
    assert {metric_names.finding(kind) for kind in Kind} <= emitted


def test_the_metric_stays_while_nobody_can_say_that_an_incident_is_over(stand: Stand):
    metric = "FindingOldestWaiting"
    stand.evaluate(read=False)
    assert stand.metrics.value(metric) == [0]

    for by in ("one", "two"):
        stand.evaluate("b0", by=by)
    for by in ("one", "fresh"):
        stand.metrics.put_metrics.clear()
        stand.evaluate(read=False, by=by)
        assert stand.metrics.value(metric) == [1]

    stand.metrics.put_metrics.clear()
    for _ in range(3):
        stand.evaluate()
    assert stand.metrics.value(metric) == [0, 0, 0]
    stand.metrics.put_metrics.clear()
    stand.evaluate(read=False)
    assert stand.metrics.value(metric) == [0]


def test_another_environment_goes_on_where_one_has_ended(stand: Stand):
    stand.evaluate("b0", by="one")
    stand.evaluate("b0", by="two")
    stand.evaluate("b0", by="three")
    for by in ("four", "five"):
        stand.evaluate(by=by)

    assert stand.words() == [OPENED, RECOVERED]


def test_two_evaluations_at_once_notify_once(stand: Stand):
    stand.evaluate("b0")
    stand.book.acquire_lock("another", stand.now + MINUTE, timedelta(seconds=50))

    alarmed = stand.evaluate("b0")

    assert not alarmed.mine
    assert stand.sent.notifications == []
    stand.book.release_lock("another")
    assert stand.evaluate("b0").sent == 2


def test_with_the_home_node_away_memory_carries_on_and_nothing_is_reported_twice(stand: Stand):
    stand.evaluate("b0")
    stand.evaluate("b0")
    stand.book.faults = {"*": "before"}
    for _ in range(10):
        stand.evaluate("b0")
    for _ in range(3):
        stand.evaluate("b1")
    assert stand.words() == [OPENED, RECOVERED, OPENED]

    stand.book.faults = {}
    stand.evaluate("b1")
    stand.evaluate("b1", by="fresh")

    assert stand.words() == [OPENED, RECOVERED, OPENED]
    present = {each.place.biz: each.life for each in stand.book.read().incidents}
    assert present == {"b0": Life.OVER, "b1": Life.OPEN}


def test_one_that_starts_without_a_book_reports_of_what_it_finds_once_more(stand: Stand):
    for _ in range(3):
        stand.evaluate("b0", by="one")
    stand.book.faults = {"*": "before"}
    for _ in range(5):
        stand.evaluate("b0", by="cold")
    stand.book.faults = {}
    for _ in range(5):
        stand.evaluate("b0", by="cold")

    assert stand.words() == [OPENED, OPENED]


def test_without_a_configuration_there_is_no_home_node_and_still_alarms(stand: Stand):
    class Unconfigured:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def refuse(*_: Any, **__: Any) -> Any:
                raise ConfigError((Problem("stage", "is missing"),))

            return refuse

    stand.book = Unconfigured()  # type: ignore[assignment]
    stand.evaluate("b0")
    stand.evaluate("b0")

    assert stand.words() == [OPENED]


def test_what_could_not_be_sent_goes_out_with_a_later_evaluation_and_once(stand: Stand):
    stand.notifier.faults = {"*": "before"}
    evaluations = [stand.evaluate("b0") for _ in range(6)]
    assert [each.failed for each in evaluations] == [0, 2, 2, 2, 2, 2]
    assert (stand.sent.notifications, evaluations[-1].owed) == ([], 1)
    assert stand.metrics.value("MessagesFailed")[-1] == 2

    stand.notifier.faults = {}
    evaluations = [stand.evaluate("b0") for _ in range(3)]

    assert stand.words() == [OPENED]
    assert [each.owed for each in evaluations] == [0, 0, 0]


class Picky(MemoryNotifier):
    """SNS that finds fault with every message that has one of these words in it."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words = words

    def notify_people(self, notification: Notification) -> None:
        self._look_at(notification.subject + notification.text)
        super().notify_people(notification)

    def notify_machines(self, bulletin: Bulletin) -> None:
        self._look_at(bulletin.document)
        super().notify_machines(bulletin)

    def _look_at(self, text: str) -> None:
        if any(word in text for word in self.words):
            raise MessageRefusedError("sns: the message was refused: InvalidParameter")


def test_a_message_that_is_always_refused_goes_out_bare_and_holds_no_other_up(stand: Stand):
    stand.notifier = stand.sent = Picky("acme/b1", '"b1"')
    evaluations = [stand.evaluate("b0", "b1", "b2") for _ in range(4)]

    assert [each.failed for each in evaluations] == [0, 2, 0, 0]
    assert evaluations[-1].owed == 0
    assert stand.words() == [OPENED] * 3
    [bare] = [each for each in stand.sent.notifications if "biz" not in each.subject]
    assert "1 incident" in bare.subject
    assert "waits too long" in bare.text
    [document] = [each.document for each in stand.sent.bulletins]
    assert '"bare":true' in document


def test_a_topic_that_refuses_even_bare_messages_keeps_them_owed_and_others_go_on(stand: Stand):
    stand.notifier = stand.sent = Picky("waits too long", "oldest_waiting")
    for _ in range(2):
        stand.evaluate("b0", "b1")
    last = stand.evaluate("b0", "b1", down="no answer")
    last = stand.evaluate("b0", "b1", down="no answer")

    [subject] = [each.subject for each in stand.sent.notifications]
    assert "CRITICAL: redis" in subject
    assert (last.failed, last.owed) == (3, 2)
    stand.sent.words = ()
    assert stand.evaluate("b0", "b1", down="no answer").owed == 0


def test_half_done_is_finished_without_notifying_the_other_half_again(stand: Stand):
    stand.notifier.faults = {"notify_machines": "before"}
    stand.evaluate("b0")
    stand.evaluate("b0")
    stand.evaluate("b0")
    assert (len(stand.sent.notifications), len(stand.sent.bulletins)) == (1, 0)

    stand.notifier.faults = {"notify_people": "before"}
    stand.evaluate("b0")

    assert (len(stand.sent.notifications), len(stand.sent.bulletins)) == (1, 1)


def test_an_answer_that_got_lost_means_once_more_and_not_never(stand: Stand):
    stand.notifier.faults = {"notify_people": "after"}
    stand.evaluate("b0")
    stand.evaluate("b0")
    stand.notifier.faults = {}
    stand.evaluate("b0")
    stand.evaluate("b0")

    assert stand.words() == [OPENED, OPENED]


def test_who_dies_between_saying_and_noting_has_it_said_again(stand: Stand):
    stand.evaluate("b0")
    written = 0
    write = stand.book.part.write

    def dies_at_the_second(*arguments: Any) -> None:
        nonlocal written
        written += 1
        if written == 2:
            raise SystemExit
        write(*arguments)

    stand.book.part.write = dies_at_the_second
    with pytest.raises(SystemExit):
        stand.evaluate("b0", by="dying")
    stand.book.part.write = write
    assert stand.words() == [OPENED]

    stand.evaluate("b0", by="next")
    stand.evaluate("b0", by="next")

    assert stand.words() == [OPENED, OPENED]


def test_a_note_that_could_not_be_written_is_written_with_the_next_evaluation(stand: Stand):
    stand.evaluate("b0")
    write, failing = stand.book.part.write, [False, True]

    def once_fails(*arguments: Any) -> None:
        if failing and failing.pop(0):
            raise StoreUnavailableError("mongodb", "is away")
        write(*arguments)

    stand.book.part.write = once_fails
    stand.evaluate("b0")
    stand.evaluate("b0")
    stand.evaluate("b0", by="another")

    assert stand.words() == [OPENED]


def test_slow_messages_do_not_take_the_time_of_the_evaluations(stand: Stand):
    stand.evaluate("b0", "b1", "b2")
    stand.call_takes = PATIENCE * 0.4
    alarmed = stand.evaluate("b0", "b1", "b2")
    assert alarmed.owed > 0

    stand.call_takes = timedelta()
    stand.evaluate("b0", "b1", "b2")

    assert stand.words() == [OPENED] * 3


def test_a_host_that_is_crowded_out_of_the_evaluation_has_not_recovered(stand: Stand):
    bad = HostSample(host="shop.example", strained=30, throttled=True, strain=9)
    for _ in range(5):
        stand.evaluate(hosts=(bad,))
    for _ in range(9):
        last = stand.evaluate(hosts=(HostSample(host="other.example"),))
    assert (last.open, stand.words()) == (1, [OPENED])

    for _ in range(2):
        last = stand.evaluate(hosts=(HostSample(host="shop.example", answered=3),))

    assert (last.open, stand.words()) == (0, [OPENED, RECOVERED])


def test_a_storm_is_one_message_and_its_end_another(stand: Stand):
    for _ in range(3):
        stand.evaluate(*BIZS, down="no answer")
    for _ in range(8):
        stand.evaluate()

    first, second = stand.sent.notifications
    assert "CRITICAL: 9 new" in first.subject
    assert "- CRITICAL: redis" in first.text
    assert "CRITICAL: 9 over" in second.subject
    assert sorted(each.tenant for each in stand.sent.bulletins) == ["", "", "acme", "acme"]


def test_what_there_was_no_room_for_is_reported_as_ended_and_is_past():
    stand = Stand(Room(most=2, reserve=0))
    for late in (["b0", "b1"], ["b0", "b1"]):
        stand.evaluate(*late)
    stand.notifier.faults["*"] = "before"
    stand.evaluate("b0", "b1", down="no answer")
    stand.notifier.faults.clear()

    stand.evaluate("b0", "b1", down="no answer", by="another")
    stand.evaluate("b0", "b1", down="no answer", by="another")

    entries = [
        (entry["place"]["biz"] or entry["place"]["part"], entry["event"])
        for each in stand.sent.bulletins
        for entry in json.loads(each.document)["incidents"]
    ]
    assert Counter(entries) == {
        ("b0", "opened"): 1,
        ("b1", "opened"): 1,
        ("b1", "recovered"): 1,
        ("redis", "opened"): 1,
    }
    [notification] = [each for each in stand.sent.notifications if each.words == RECOVERED]
    assert "no longer followed" in notification.subject
    assert "acme/b1" in notification.subject
    assert "It is over." not in notification.text
    past = stand.book.find(["acme"], open_only=False, before=None, limit=9)
    assert {each.place.biz: each.life for each in past} == {"b0": Life.OPEN, "b1": Life.OVER}


def test_a_tenant_reads_its_own_incidents_and_an_operator_everybodys(stand: Stand):
    stand.evaluate("b0", down="no answer")
    stand.evaluate("b0", down="no answer")

    def read(tenant: str, **options: Any) -> list[str]:
        wanted = {"open_only": True, "cursor": None, "limit": 10, **options}
        page = list_incidents(stand.book, stand.tree, tenant, **wanted)
        return [str(each.incident.place) for each in page.items]

    assert read("acme") == ["biz acme/b0"]
    assert read("rival") == []
    assert sorted(read("default")) == ["biz acme/b0", "redis"]


def test_pages_of_incidents_follow_each_other(stand: Stand):
    stand.evaluate(*BIZS)
    stand.evaluate(*BIZS)
    found_kinds, cursor = [], None
    while True:
        page = list_incidents(
            stand.book, stand.tree, "acme", open_only=False, cursor=cursor, limit=3
        )
        found_kinds += [each.incident.place.biz for each in page.items]
        cursor = page.cursor
        if not page.more:
            break

    assert sorted(found_kinds) == list(BIZS)


faults = st.sampled_from(["", "before", "after"])
calls = st.sampled_from(["*", "write", "read", "release_lock"])


@given(
    st.lists(st.tuples(st.booleans(), faults, faults, calls, st.sampled_from("ab")), max_size=60)
)
def test_through_any_outages_everything_is_reported_in_the_end(history):
    stand = Stand()
    for bad, book, notifier, call, by in history:
        stand.book.faults = {call: book} if book else {}
        stand.notifier.faults = {"*": notifier} if notifier else {}
        # While the book is away one environment carries on; what it tells, others do not know.
        stand.evaluate(*(["b0"] if bad else []), by="a" if any(each[1] for each in history) else by)
    stand.book.faults = stand.notifier.faults = {}
    for _ in range(3):
        stand.evaluate("b0", by="a")
    for _ in range(3):
        last = stand.evaluate("b0", by="a")

    assert (last.open, last.owed, last.failed) == (1, 0, 0)
    words = [word for notification in stand.sent.notifications for word in notification.words]
    assert words
    assert words[-1] in {Word.OPENED, Word.REMINDER}
