"""Items are explained on a real MongoDB: who took one and by which terms, and where it is."""

from datetime import timedelta

import pytest

from tests.contract.streams.delivery_cases import (
    BEGIN,
    STREAM,
    a_subscriber,
    addressed,
    an_item,
)
from tests.kit.kernel import InvalidRequestError, NotFoundError
from tests.kit.streams import (
    ItemExplainer,
    MongoAccepting,
    MongoLeasing,
    MongoTraces,
    Reason,
    Withdrawn,
    delivery_key,
    explaining,
    item_key,
)
from tests.kit.subscriptions import Active, Content, Hours, MongoSubscriptions, StreamKind

TERM = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
EARLIER = BEGIN - timedelta(days=1)


@pytest.fixture
def accepting(mongo_connection):
    return MongoAccepting(mongo_connection)


@pytest.fixture
def leasing(mongo_connection):
    return MongoLeasing(mongo_connection)


@pytest.fixture
def explain(mongo_connection):
    explainer = ItemExplainer(
        traces=MongoTraces(mongo_connection), subscriptions=MongoSubscriptions(mongo_connection)
    )

    def explained(item="1", biz="news", **which):
        return explainer.explain("acme", biz, item, **which)

    return explained


@pytest.fixture
def subscribe(mongo_connection):
    def put(name, wanted, channel="news", at=EARLIER, **more):
        content = Content(kind=StreamKind.NDJSON_STREAM, filter=wanted, channel=channel, **more)
        MongoSubscriptions(mongo_connection).put("acme", "news", name, content, at, most=100)

    return put


def verdicts(found):
    return {one.subscription: one for one in found.verdicts}


def test_who_took_an_item_and_what_others_lack_is_told(accepting, subscribe, explain):
    subscribe("press", "rain")
    subscribe("sport", "rain (football OR tennis)")
    subscribe("dry", "ghent -rain")
    accepting.accept([addressed(an_item(text="Rain in Ghent"))], BEGIN)

    found = explain()

    assert [one.subscription for one in found.verdicts] == ["press", "dry", "sport"]
    of = verdicts(found)
    assert (of["press"].tried.found, of["press"].why) == (("rain",), "")
    assert of["press"].delivery.target == STREAM
    assert (of["sport"].delivery, of["sport"].tried.missing) == (None, ("football",))
    assert of["dry"].tried.excluded_by == ("-rain",)
    assert explain(subscription="sport").verdicts == (of["sport"],)


def test_an_item_is_found_by_its_channel_or_by_the_id_of_a_message(accepting, subscribe, explain):
    subscribe("press", "rain")
    accepting.accept([addressed(an_item())], BEGIN)
    message = delivery_key(item_key("news", "1"), a_subscriber()).hex()

    assert explain(channel="news") == explain() == explain(message)
    assert explain(f"{message}-withdrawn").trace.id == "1"


def test_an_item_that_several_channels_have_needs_its_channel(accepting, subscribe, explain):
    for channel in ("news", "other"):
        subscribe(f"of-{channel}", "rain", channel)
        accepting.accept([addressed(an_item(channel=channel))], BEGIN)

    with pytest.raises(InvalidRequestError, match="several"):
        explain()
    assert explain(channel="other").trace.channel == "other"


def test_what_other_bizs_alone_have_is_not_found(accepting, subscribe, explain):
    subscribe("press", "rain")
    accepting.accept([addressed(an_item(), a_subscriber(tenant="rival"))], BEGIN)

    with pytest.raises(NotFoundError, match="subscription try"):
        explain()
    with pytest.raises(NotFoundError):
        explain(channel="news")


def test_a_subscription_that_does_not_read_the_channel_is_not_found(accepting, subscribe, explain):
    subscribe("press", "rain")
    accepting.accept([addressed(an_item())], BEGIN)

    with pytest.raises(NotFoundError, match="'none'"):
        explain(subscription="none")


def test_a_delivery_says_when_its_receiver_had_it(accepting, leasing, subscribe, explain):
    subscribe("press", "rain")
    accepting.accept([addressed(an_item())], BEGIN)
    lease = leasing.lease("d1", BEGIN, TERM)
    leasing.settle(leasing.due(lease, BEGIN, 10), BEGIN + SECOND)

    (found,) = explain().verdicts

    assert found.delivery.state.name == "DELIVERED"
    assert found.delivery.settled_at == BEGIN + SECOND


def test_what_waits_says_what_is_wrong_with_its_receiver(accepting, leasing, subscribe, explain):
    subscribe("press", "rain")
    accepting.accept([addressed(an_item())], BEGIN)
    lease = leasing.lease("d1", BEGIN, TERM)
    leasing.back_off(lease, BEGIN + TERM, BEGIN, "it is away", slow=False)

    (found,) = explain().verdicts

    assert (found.delivery.error, found.delivery.due_at) == ("it is away", BEGIN + TERM)


def test_what_is_dead_says_why(accepting, leasing, subscribe, explain):
    subscribe("press", "rain")
    accepting.accept([addressed(an_item())], BEGIN)
    lease = leasing.lease("d1", BEGIN, TERM)
    leasing.bury(dict.fromkeys(leasing.due(lease, BEGIN, 10), (Reason.REFUSED, "no")), BEGIN)

    (found,) = explain().verdicts

    assert (found.delivery.reason, found.delivery.error) == (Reason.REFUSED, "no")


def test_what_was_withdrawn_says_so_and_shows_no_text(accepting, subscribe, explain):
    subscribe("press", "rain")
    subscribe("sport", "football")
    accepting.accept([addressed(an_item())], BEGIN)
    accepting.withdraw([Withdrawn(id="1", channel="news", at=BEGIN)], BEGIN + SECOND)

    found = explain()

    assert (found.trace.item, found.trace.withdrawn_at) == (None, BEGIN)
    assert [one.why for one in found.verdicts] == [explaining.WITHDRAWN] * 2
    assert verdicts(found)["press"].delivery.is_withdrawal


def test_the_delivery_to_a_subscription_that_has_ended_is_shown(accepting, explain):
    accepting.accept([addressed(an_item())], BEGIN)

    (found,) = explain(channel="news").verdicts

    assert (found.subscription, found.why) == ("press", explaining.ENDED)


def test_why_an_item_was_not_taken_by_a_filter_that_takes_it_now_is_told(
    accepting, subscribe, explain
):
    nights = Active(hours=(Hours(begins="01:00", ends="02:00"),))
    subscribe("changed", "football")
    subscribe("late", "rain", at=BEGIN + SECOND)
    subscribe("resting", "rain", active=nights)
    subscribe("suspended", "rain")
    accepting.accept([addressed(an_item(), a_subscriber("changed"))], BEGIN)

    assert {name: one.why for name, one in verdicts(explain()).items()} == {
        "changed": explaining.CHANGED_SINCE,
        "late": explaining.LATER,
        "resting": explaining.RESTING,
        "suspended": explaining.NOT_SERVED,
    }
