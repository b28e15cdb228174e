import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import AlarmLimits
from tests.kit.incidents import (
    CHUNK,
    DOCUMENT_BYTES,
    NAMED,
    Kind,
    Life,
    Listener,
    NotificationState,
    Place,
    Severity,
    Word,
    bare_bulletin,
    bare_notification,
    bulletin,
    evaluate,
    host_place,
    notification,
    part_place,
    summary,
)
from tests.kit.incidents import bulletins_of_incidents as bulletins
from tests.kit.kernel import one_line, plain
from tests.kit.monitoring import Unread
from tests.kit.queue import NodeHealth
from tests.kit.worlds.incidents import MINUTE, START, an_incident
from tests.kit.worlds.samples import a_sample, a_tree

LIMITS = AlarmLimits()
NOW = START + 12 * MINUTE


def fits(made) -> None:
    """Assert that SNS and phones accept the notification."""
    assert made.subject.isascii()
    assert made.subject.isprintable()
    assert 0 < len(made.subject) < 100
    assert made.subject[0].isalpha()
    assert made.short.isascii()
    assert made.short.isprintable()
    assert 0 < len(made.short) <= 140
    assert len(made.text) <= 8_000


def test_a_message_says_what_where_since_when_how_bad_and_what_to_do():
    made = notification("prod", an_incident(3, worst=40.0), LIMITS, NOW)

    fits(made)
    assert made.subject == "crawlfleet prod warning: biz acme/b3: the backlog is too deep"
    assert made.text.startswith("Biz acme/b3: the backlog is too deep.\n")
    assert "12 wait, more than 10 (at worst 4.0 times the threshold)" in made.text
    assert "2026-03-01 12:00:00 UTC, for 12 min" in made.text
    assert "`crawlfleet stats b3 --watch`" in made.text
    assert "reminded in 1 h " in made.text
    assert made.short.endswith("12 wait, more than 10")
    assert (made.severity, made.words) == (Severity.WARNING, (Word.OPENED,))


def test_a_reminder_says_that_it_lasts_and_when_the_next_one_comes():
    people = NotificationState(
        owed=Word.REMINDER, notified=Word.REMINDER, notified_at=START, reminders=1
    )

    made = notification("prod", an_incident(3, people=people), LIMITS, NOW)

    assert made.subject.startswith("crawlfleet prod still warning: biz acme/b3")
    assert "reminded in 4 h " in made.text


def test_phones_read_what_is_owed_to_them():
    notification_state = {
        "people": NotificationState(),
        "phones": NotificationState(owed=Word.REMINDER, notified=Word.OPENED),
    }
    grave = an_incident(3, kind=Kind.STORAGE, **notification_state)

    made = notification("prod", grave, LIMITS, NOW, Listener.PHONES)
    many = summary("prod", [grave] * 3, NOW, Listener.PHONES)

    assert made.short.startswith("crawlfleet prod still CRITICAL: biz acme/b3")
    assert many.short.startswith("crawlfleet prod CRITICAL: 3 still open")


def test_the_end_says_how_long_it_took_and_whether_anybody_had_heard():
    over = {"life": Life.OVER, "over_at": START + timedelta(minutes=90)}
    notified = NotificationState(owed=Word.RECOVERED, notified=Word.OPENED)
    unheard = NotificationState(owed=Word.RECOVERED)

    made = notification("prod", an_incident(3, people=notified, **over), LIMITS, NOW)
    silent = notification("prod", an_incident(3, people=unheard, **over), LIMITS, NOW)

    assert made.subject.startswith("crawlfleet prod over: biz acme/b3")
    assert "after 1 h 30 min" in made.text
    assert "before the message" not in made.text
    assert "before the message about its beginning could be sent" in silent.text


def test_a_sum_counts_everything_and_names_the_first_ones():
    storm = [an_incident(n) for n in range(1_000)]

    made = summary("prod", storm, NOW)

    fits(made)
    assert made.subject == "crawlfleet prod warning: 1,000 new"
    assert "1,000 x the backlog is too deep (new)" in made.text
    assert made.text.count("\n- ") == NAMED + 1
    assert f"and {1_000 - NAMED:,} more" in made.text


def test_a_sum_of_different_words_says_how_many_of_each():
    over = an_incident(
        1, life=Life.OVER, people=NotificationState(owed=Word.RECOVERED, notified=Word.OPENED)
    )
    down = an_incident(
        2, kind=Kind.PART_DOWN, place=Place(part="redis", name="redis"), said="no answer"
    )

    made = summary("prod", [down, over], NOW)

    assert made.subject == "crawlfleet prod CRITICAL: 1 new, 1 over"
    assert "- CRITICAL: redis: does not answer: no answer" in made.text
    assert made.words == (Word.OPENED, Word.RECOVERED)


def test_machines_get_the_same_as_json():
    made = bulletin("prod", [an_incident(3)], NOW)

    document = json.loads(made.document)
    [entry] = document.pop("incidents")
    assert document == {
        "version": 1,
        "stage": "prod",
        "at": "2026-03-01T12:12:00Z",
        "tenant": "acme",
    }
    assert entry["event"] == "opened"
    assert entry["place"] == {"tenant": "acme", "biz": "b3", "part": "", "name": ""}
    assert (entry["kind"], entry["value"], entry["threshold"]) == ("backlog", 12.0, 10.0)
    assert entry["over_at"] is None
    assert (made.tenant, made.severity) == ("acme", Severity.WARNING)


@pytest.mark.parametrize("char", ["w", '"', "\N{SNOWMAN}", "\N{GRINNING FACE}"])
@pytest.mark.parametrize("part", [Place(tenant="t" * 32, biz="b" * 32), None])
def test_full_messages_to_machines_are_what_sns_takes(char, part):
    longest = [
        an_incident(
            n, said=char * 5_000, place=part or Place(part="host", name=f"{n}" + char * 256)
        )
        for n in range(CHUNK)
    ]

    made = list(bulletins("prod", longest, NOW))

    assert [each for incidents, _ in made for each in incidents] == longest
    for incidents, message in made:
        assert len(message.document.encode()) <= DOCUMENT_BYTES < 256 * 1024
        assert len(json.loads(message.document)["incidents"]) == len(incidents)
    assert len(list(bulletins("prod", longest[:3], NOW))) == 1


def test_bare_messages_are_of_our_own_words_alone():
    odd = [an_incident(n, said="\N{SNOWMAN}", place=Place(part="host", name="odd")) for n in (1, 2)]
    whole, document = summary("prod", odd, NOW), bulletin("prod", odd, NOW)

    made = bare_notification("prod", whole, odd)
    machines = json.loads(bare_bulletin("prod", document, odd, NOW).document)

    fits(made)
    assert made.text.isascii()
    assert "odd" not in made.subject + made.text + made.short
    assert all(each.id in made.text for each in odd)
    assert (made.words, made.severity) == (whole.words, whole.severity)
    assert machines["bare"] is True
    assert [each["id"] for each in machines["incidents"]] == [each.id for each in odd]
    assert {each["event"] for each in machines["incidents"]} == {"opened"}


@pytest.mark.parametrize(
    "text",
    [
        "mongodb://root:hunter2@db.example:27017/?tls=true",
        "rediss://:hunter2@redis.example",
        "mongodb+srv://user:hunt/er2@db.example",
        "https://a.example/x?access_token=hunter2&y=1",
        "password: hunter2",
        "Authorization: Bearer hunter2",
        "https://q.example/?X-Amz-Signature=hunter2",
    ],
)
def test_no_message_carries_a_secret(text):
    error = f"cannot reach {text} now"
    down = NodeHealth(part="redis", name="redis", up=False, error=error)
    unread = (Unread(what="ledger of acme/docs", why=error),)
    evaluations = [
        evaluate(a_sample(parts=(down,)), None, a_tree()),
        evaluate(a_sample(config_refused=error, unread=unread), None, a_tree()),
    ]
    found = [finding for evaluation in evaluations for finding in evaluation.findings]
    assert [each.kind for each in found] == [
        Kind.PART_DOWN,
        Kind.CONFIG_REFUSED,
        Kind.MONITOR_BLIND,
    ]
    for finding in found:
        incident = an_incident(1, kind=finding.kind, place=finding.place, said=finding.said)
        made = notification("prod", incident, LIMITS, NOW)
        whole = made.subject + made.text + made.short
        whole += summary("prod", [incident] * 3, NOW).text
        whole += bulletin("prod", [incident], NOW).document
        assert "hunter2" not in whole
        assert "er2@" not in whole


@pytest.mark.parametrize("name", ["token", "password", "api-key", "my-secret", "x-amz-target"])
def test_names_are_said_as_they_are(name):
    """Our own sentence follows the name, whatever the name looks like."""
    place = Place(tenant="acme", biz=name)
    incident = an_incident(1, place=place, said="12 wait, more than 10")
    made = notification("prod", incident, LIMITS, NOW)
    title = "the backlog is too deep"

    assert made.subject == f"crawlfleet prod warning: biz acme/{name}: {title}"
    assert made.short.endswith(f"biz acme/{name}: {title}: 12 wait, more than 10")
    assert made.text.startswith(f"Biz acme/{name}: {title}.\n")
    summed = summary("prod", [incident] * 9, NOW)
    assert f"- warning: biz acme/{name}: {title}: 12 wait, more than 10" in summed.text
    assert summed.short.endswith(f"biz acme/{name}: {title}")
    assert host_place(f"{name}:8443") == Place(part="host", name=f"{name}:8443")
    node = NodeHealth(part="redis", name=f"{name}:6379", up=True)
    assert part_place(node) == Place(part="redis", name=f"{name}:6379")


def test_what_could_not_be_read_is_named_and_why_is_cleaned():
    unread = (Unread(what="ledger of acme/token", why="password: hunter2 is wrong"),)
    [finding] = evaluate(a_sample(unread=unread), None, a_tree()).findings

    assert finding.said == "ledger of acme/token: password: *** is wrong"
    said = an_incident(1, kind=finding.kind, place=finding.place, said=finding.said)
    assert finding.said in notification("prod", said, LIMITS, NOW).text
    assert finding.said in summary("prod", [said] * 9, NOW).text
    assert finding.said in bulletin("prod", [said], NOW).document


names = st.text(max_size=60)


@given(
    st.sampled_from(Kind),
    st.builds(Place, tenant=names, biz=names, part=names, name=names),
    st.text(max_size=2_000),
    st.sampled_from(Word),
    st.text(alphabet="abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=32),
)
def test_whatever_it_quotes_a_message_fits(kind, place, said, word, stage):
    notification_state = NotificationState(owed=word)
    incident = an_incident(
        1, kind=kind, place=place, said=said, people=notification_state, machines=notification_state
    )

    fits(notification(stage, incident, LIMITS, NOW))
    fits(summary(stage, [incident] * 30, NOW))


@given(st.text(max_size=300), st.integers(0, 80))
def test_plain_text_is_one_printable_line_within_its_bound(text, most):
    for made in (plain(text, most), one_line(text, most)):
        assert len(made) <= most
        assert made.isprintable()
