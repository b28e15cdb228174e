"""SNS as moto has it, and SNS dead, slow, throttling and refusing."""

import json
from typing import Any

import pytest

from infra.local.aws_server import REGION
from tests.kit.aws import client
from tests.kit.broken_servers import BROKEN_SERVERS
from tests.kit.incidents import Bulletin, Notification, Severity, SnsNotifier, Word
from tests.kit.kernel import MessageRefusedError, StoreUnavailableError
from tests.kit.topics import Refusing, Topic
from tests.waiting import in_time

NOTIFICATION = Notification(
    subject="crawlfleet prod CRITICAL: redis: does not answer",
    text="Redis: does not answer.\nSince ... \N{SNOWMAN}",
    short="crawlfleet prod CRITICAL: redis",
    severity=Severity.CRITICAL,
    words=(Word.OPENED,),
)
BULLETIN = Bulletin(
    tenant="acme",
    document='{"incidents": []}',
    severity=Severity.WARNING,
    words=(Word.OPENED, Word.RECOVERED),
)


def test_people_get_a_subject_and_a_text(aws: None):
    topic = Topic("people")

    SnsNotifier(topic.arn, None).notify_people(NOTIFICATION)

    [heard] = topic.heard()
    assert (heard["Subject"], heard["Message"]) == (NOTIFICATION.subject, NOTIFICATION.text)


def test_phones_get_the_short_form_by_a_topic_of_their_own(aws: None):
    people, phones = Topic("people"), Topic("phones")
    notifier = SnsNotifier(people.arn, None, phones.arn)

    notifier.notify_phones(NOTIFICATION)

    [heard] = phones.heard()
    assert heard["Message"] == NOTIFICATION.short
    assert people.heard() == []


def test_a_phone_that_hears_people_gets_the_short_form(aws: None):
    sent: dict[str, Any] = {}

    class Recorded:
        def publish(self, **arguments: Any) -> None:
            sent.update(arguments)

    SnsNotifier("arn", None, None, Recorded()).notify_people(NOTIFICATION)

    assert sent["MessageStructure"] == "json"
    assert json.loads(sent["Message"]) == {
        "default": NOTIFICATION.text,
        "email": NOTIFICATION.text,
        "sms": NOTIFICATION.short,
    }


@pytest.mark.parametrize(
    ("only", "heard"),
    [
        ({"severity": ["critical"]}, 1),
        ({"severity": ["warning"]}, 0),
        ({"word": ["opened"]}, 1),
        ({"word": ["recovered"]}, 0),
    ],
)
def test_subscriptions_of_people_can_be_filtered(aws: None, only: dict, heard: int):
    topic = Topic("people", only)

    SnsNotifier(topic.arn, None).notify_people(NOTIFICATION)

    assert len(topic.heard()) == heard


@pytest.mark.parametrize(
    ("tenant", "only", "heard"),
    [("acme", "acme", 1), ("acme", "rival", 0), ("", "-", 1), ("", "acme", 0)],
)
def test_machines_get_json_and_can_hear_one_tenant_alone(
    aws: None, tenant: str, only: str, heard: int
):
    topic = Topic("machines", {"tenant": [only]})
    bulletin = Bulletin(
        tenant=tenant,
        document=BULLETIN.document,
        severity=BULLETIN.severity,
        words=BULLETIN.words,
    )

    SnsNotifier(None, topic.arn).notify_machines(bulletin)

    assert [each["Message"] for each in topic.heard()] == [BULLETIN.document] * heard


def test_without_topics_people_are_notified_in_the_log(caplog: pytest.LogCaptureFixture):
    notifier = SnsNotifier(None, None)

    notifier.notify_people(NOTIFICATION)
    notifier.notify_phones(NOTIFICATION)
    notifier.notify_machines(BULLETIN)

    assert "a message to people" in caplog.text
    assert caplog.records[-1].text == NOTIFICATION.text  # type: ignore[attr-defined]


def test_a_topic_that_there_is_not_is_an_error_that_names_no_address(aws: None):
    notifier = SnsNotifier(f"arn:aws:sns:{REGION}:123456789012:gone", None)

    with pytest.raises(StoreUnavailableError, match="NotFound"):
        notifier.notify_people(NOTIFICATION)


@pytest.mark.parametrize(
    "code", ["Throttling", "ThrottledException", "KMSAccessDenied", "AuthorizationError", "x"]
)
def test_a_topic_that_takes_nothing_now_is_worth_another_try_and_says_why(code: str):
    with pytest.raises(StoreUnavailableError, match=f"refused: {code}") as caught:
        SnsNotifier("arn", "arn", "arn", Refusing(code)).notify_machines(BULLETIN)

    assert caught.value.retryable
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("code", ["InvalidParameter", "ParameterValueInvalid", "ValidationError"])
def test_a_message_that_sns_finds_fault_with_is_refused_for_ever(code: str):
    with pytest.raises(MessageRefusedError, match=f"refused: {code}") as caught:
        SnsNotifier("arn", "arn", "arn", Refusing(code)).notify_people(NOTIFICATION)

    assert not caught.value.retryable
    assert "secret" not in str(caught.value)


def test_a_message_that_is_too_long_or_has_no_form_is_refused(aws: None):
    topic = Topic("people")
    long = Notification(
        subject="x",
        text="w" * 300_000,
        short="x",
        severity=Severity.WARNING,
        words=(Word.OPENED,),
    )

    with pytest.raises(MessageRefusedError):
        SnsNotifier(topic.arn, None).notify_people(long)
    with pytest.raises(MessageRefusedError):
        SnsNotifier(5, None).notify_people(NOTIFICATION)  # type: ignore[arg-type]


@pytest.mark.parametrize("server", BROKEN_SERVERS.values(), ids=BROKEN_SERVERS)
def test_sns_that_does_not_do_what_it_should_is_reported_within_seconds(aws: None, server):
    with server() as address:
        slow = client(
            "sns",
            endpoint_url=f"http://{address}",
            timeout_seconds=0.5,
            region_name=REGION,
        )
        # The driver's own time-out is a minute, and it tries five times.
        with in_time(5), pytest.raises(StoreUnavailableError):
            SnsNotifier(None, None, f"arn:aws:sns:{REGION}:123456789012:t", slow).notify_phones(
                NOTIFICATION
            )
