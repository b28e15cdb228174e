"""Calling other functions: what is asked, what is kept, and what becomes of their failures."""

import io
import json
import math
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError
from botocore.stub import Stubber

from tests.kit.config import Field, Rule
from tests.kit.fleet import WAKING, LambdaIds, LambdaTrials, LambdaWaker
from tests.kit.kernel import (
    IdKind,
    IdsError,
    InvalidRequestError,
    QueueKey,
    StoreUnavailableError,
    TrialLateError,
    TrialsBusyError,
)
from tests.kit.requests import Page
from tests.kit.trials import LARGEST_BYTES, Answer, Question, Terms, Tried
from tests.waiting import eventually

QUEUE_KEY = QueueKey("acme", "docs", "main")
OTHER = QueueKey("rival", "docs", "main")
QUESTION = Question(
    tenant="acme",
    biz="docs",
    terms=Terms(robots_agent="Crawlfleet"),
    rule=Rule(fields={"title": Field(css="title")}),
    page=Page(url="https://example.org/", status=200, headers={}, body=b"\xff<title>"),
)


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Issuer:
    """An id-issuer of counting numbers, at the far end of ``invoke``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.asked: list[dict[str, Any]] = []
        self.calls: list[dict[str, Any]] = []
        self.next = 1
        self.short_by = 0

    def invoke(self, **call: Any) -> dict[str, Any]:
        self.calls.append(call)
        question = json.loads(call["Payload"])
        self.asked.append(question)
        size = question["count"] - self.short_by
        first, self.next = self.next, self.next + size
        end = self._clock() + timedelta(seconds=10)
        block: dict[str, Any] = {"expires_at": end.isoformat(), "runs": [], "ids": []}
        if question["kind"] in {"uuid", "objectid"}:
            block["ids"] = [f"{first + n:032x}" for n in range(size)]
        else:  # in two runs, as a block that crosses a millisecond is
            half = size // 2
            block["runs"] = [[first, half], [first + half, size - half]]
        return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(block).encode())}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer(clock) -> Issuer:
    return Issuer(clock)


@pytest.fixture
def ids(issuer, clock) -> LambdaIds:
    return LambdaIds("issuer", clock, issuer, block_size=100)


def test_one_call_serves_many_small_submissions(ids, issuer):
    taken = [an_id for _ in range(50) for an_id in ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 2)]

    assert taken == list(range(1, 101))
    assert len(issuer.asked) == 1
    assert issuer.calls[0]["FunctionName"] == "issuer"
    assert issuer.calls[0]["InvocationType"] == "RequestResponse"


def test_a_large_submission_uses_what_is_left_and_asks_for_the_rest(ids, issuer):
    assert ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 30) == list(range(1, 31))

    assert ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1000) == list(range(31, 1031))

    assert [question["count"] for question in issuer.asked] == [100, 930]


def test_a_block_is_not_used_in_its_last_second(ids, issuer, clock):
    ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1)

    clock.now += timedelta(seconds=8.9)
    assert ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1) == [2]
    clock.now += timedelta(seconds=0.1)
    assert ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1) == [101]

    assert len(issuer.asked) == 2


@pytest.mark.parametrize("kind", [IdKind.UUID, IdKind.OBJECT_ID])
def test_ids_of_text_come_as_they_were_given(ids, issuer, kind):
    taken = ids.take(QUEUE_KEY, kind, 3) + ids.take(QUEUE_KEY, kind, 2)

    assert taken == [f"{n:032x}" for n in range(1, 6)]
    assert issuer.asked == [{"kind": kind.value, "count": 100, "tenant": "acme", "biz": "docs"}]


def test_counters_belong_to_their_biz_and_the_other_kinds_to_nobody(ids, issuer):
    ids.take(QUEUE_KEY, IdKind.COUNTER, 1)
    ids.take(OTHER, IdKind.COUNTER, 1)
    ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1)
    ids.take(OTHER, IdKind.SNOWFLAKE, 1)

    asked = [(question["kind"], question["tenant"]) for question in issuer.asked]
    assert asked == [("counter", "acme"), ("counter", "rival"), ("snowflake", "acme")]


def test_no_id_goes_to_two_threads(ids):
    taken: list[Any] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        for _ in range(50):
            taken.extend(ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 3))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(taken) == len(set(taken)) == 8 * 50 * 3


def test_an_issuer_that_gives_fewer_than_it_was_asked_for_is_an_error(ids, issuer):
    issuer.short_by = 60

    with pytest.raises(IdsError, match="gave 40 of 50"):
        ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 50)


class Broken:
    """A Lambda service that answers each call in the one given way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def invoke(self, **_: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def client_error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "secret"}}, "Invoke")


UNREACHABLE = {
    "throttled": client_error("TooManyRequestsException"),
    "missing": client_error("ResourceNotFoundException"),
    "forbidden": client_error("AccessDeniedException"),
    "down": EndpointConnectionError(endpoint_url="https://lambda.test"),
    "slow": ReadTimeoutError(endpoint_url="https://lambda.test"),
    "cut": ConnectionResetError(),
}


@pytest.mark.parametrize("error", UNREACHABLE.values(), ids=UNREACHABLE)
def test_a_function_that_cannot_be_called_is_an_unavailable_part(clock, error):
    for call in (
        lambda: LambdaIds("f", clock, Broken(error)).take(QUEUE_KEY, IdKind.SNOWFLAKE, 1),
        lambda: LambdaWaker("f", Broken(error)).wake(1),
        lambda: LambdaTrials("f", Broken(error), sleep=lambda _: None).ask(QUESTION),
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            call()
        assert caught.value.part in {"lambda", "trials"}
        assert caught.value.__cause__ is error
        assert "secret" not in str(caught.value)


class Counted(Broken):
    """Answers in the given ways, one after the other."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(None)
        self.answers, self.calls = list(answers), 0

    def invoke(self, **_: Any) -> Any:
        self.calls += 1
        self.answer = self.answers.pop(0)
        return super().invoke()


def test_a_throttled_trial_is_asked_for_once_more_and_then_refused_with_the_wait():
    pauses: list[float] = []
    throttled = client_error("TooManyRequestsException")
    done = payload(msgspec.json.encode(Answer(tried=Tried(version="v"))))

    for answers, calls in (((throttled, done), 2), ((throttled, throttled, done), 2)):
        service = Counted(*answers)
        trials = LambdaTrials("f", service, sleep=pauses.append)
        if len(answers) == 2:
            assert trials.ask(QUESTION).tried == Tried(version="v")
        else:
            with pytest.raises(TrialsBusyError, match="come back in 5 s"):
                trials.ask(QUESTION)
        assert service.calls == calls
    assert len(pauses) == 2
    assert all(0 < pause < 1 for pause in pauses)


@pytest.mark.parametrize("kind", ["slow", "down", "forbidden", "missing"])
def test_a_trial_that_is_not_throttled_is_not_asked_for_again(kind):
    service = Counted(UNREACHABLE[kind])

    with pytest.raises(StoreUnavailableError) as caught:
        LambdaTrials("f", service, sleep=lambda _: None).ask(QUESTION)

    assert not isinstance(caught.value, TrialsBusyError)
    assert service.calls == 1


def test_a_trial_is_waited_for_as_long_as_its_question_says_and_no_longer():
    ended = threading.Event()

    class Silent:
        calls = 0

        def invoke(self, **_: Any) -> Any:
            self.calls += 1
            assert ended.wait(60)
            return payload(b"null")

    service = Silent()
    try:
        with pytest.raises(TrialLateError, match="took longer than 26 seconds"):
            LambdaTrials("f", service).ask(msgspec.structs.replace(QUESTION, seconds=0.05))
        # Its thread may begin after nobody waits any more.
        eventually(lambda: service.calls)
    finally:
        ended.set()
    assert service.calls == 1


def test_a_question_that_lambda_does_not_carry_is_refused_before_it_is_sent():
    page = Page(url="https://example.org/", status=200, headers={}, body=b"x" * LARGEST_BYTES)
    service = Counted()

    with pytest.raises(InvalidRequestError, match="may travel"):
        LambdaTrials("f", service).ask(msgspec.structs.replace(QUESTION, page=page))
    assert service.calls == 0


def payload(content: bytes, **more: Any) -> dict[str, Any]:
    return {"StatusCode": 200, "Payload": io.BytesIO(content), **more}


FAILED = {
    "error": (
        payload(b'{"errorType":"ConfigError","errorMessage":"no"}', FunctionError="Unhandled"),
        "the id-issuer failed: ConfigError: no",
    ),
    "timeout": (
        payload(b'{"errorMessage":"Task timed out"}', FunctionError="Unhandled"),
        "the id-issuer failed: no reason given",
    ),
    "nothing": (payload(b"", FunctionError="Unhandled"), "no reason given"),
    "list": (payload(b"[]", FunctionError="Unhandled"), "no reason given"),
    "null": (payload(b"null"), "is no block"),
    "html": (payload(b"<html>"), "is no block"),
    "empty": (payload(b""), "is no block"),
    "bytes": (payload(b'{"expires_at":"2026-03-01T12:00:10Z","ids":["\xff"]}'), "is no block"),
    "naive": (payload(b'{"expires_at":"2026-03-01T12:00:10","runs":[[1,2]]}'), "is no block"),
}


@pytest.mark.parametrize(("answer", "reason"), FAILED.values(), ids=FAILED)
def test_a_function_that_fails_or_talks_nonsense_issues_no_ids(clock, answer, reason):
    with pytest.raises(IdsError, match=reason):
        LambdaIds("f", clock, Broken(answer)).take(QUEUE_KEY, IdKind.SNOWFLAKE, 1)


def test_waking_sends_as_many_events_as_consumers_are_wanted(aws):
    client = boto3.client("lambda")
    with Stubber(client) as stub:
        for _ in range(3):
            expected = {"FunctionName": "consumer", "InvocationType": "Event", "Payload": b"{}"}
            stub.add_response("invoke", {"StatusCode": 202}, expected)

        LambdaWaker("consumer", client).wake(3)

        stub.assert_no_pending_responses()


def test_waking_none_calls_nobody():
    LambdaWaker("consumer", Broken(AssertionError())).wake(0)


class Consumers:
    """Counts calls, and how many there are at once; from ``refused`` on they fail."""

    def __init__(self, refused: float = math.inf) -> None:
        self._lock = threading.Lock()
        self._together = threading.Barrier(2, timeout=60)
        self._refused = refused
        self.calls = self.now = self.most = 0

    def invoke(self, **_: Any) -> dict[str, Any]:
        with self._lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)
            number = self.calls
        if number <= 2:
            self._together.wait()
        with self._lock:
            self.now -= 1
        if number >= self._refused:
            raise EndpointConnectionError(endpoint_url="lambda")
        return {"StatusCode": 202}


def test_many_are_woken_some_at_a_time_so_that_the_last_does_not_wait_for_all_the_others():
    consumers = Consumers()

    LambdaWaker("consumer", consumers).wake(100)

    assert consumers.calls == 100
    assert 2 <= consumers.most <= WAKING


def test_where_a_call_fails_those_that_have_not_begun_are_left():
    consumers = Consumers(refused=3)

    with pytest.raises(StoreUnavailableError, match="EndpointConnectionError"):
        LambdaWaker("consumer", consumers).wake(1_000)

    assert 3 <= consumers.calls <= WAKING
    assert consumers.now == 0


def test_a_trial_is_asked_of_a_function_that_is_waited_for():
    calls = []
    tried = Tried(version="v", records=({"a": 1, "b": None},), seconds=0.5)

    class Function:
        def invoke(self, **call: Any) -> dict[str, Any]:
            calls.append(call)
            return payload(msgspec.json.encode(Answer(tried=tried)))

    assert LambdaTrials("trials", Function()).ask(QUESTION) == Answer(tried=tried)
    assert calls[0]["FunctionName"] == "trials"
    assert calls[0]["InvocationType"] == "RequestResponse"
    question = msgspec.convert(json.loads(calls[0]["Payload"])["trial"], Question)
    assert question == QUESTION


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (payload(b'{"errorType":"X","errorMessage":"no"}', FunctionError="Unhandled"), "X: no"),
        (payload(b"", FunctionError="Unhandled"), "no reason given"),
        (payload(b"null"), "no trial's"),
        (payload(b'{"tried": 7}'), "no trial's"),
        (payload(b'{"tried": {"version": "\xff"}}'), "no trial's"),
    ],
    ids=["error", "nothing", "null", "shape", "bytes"],
)
def test_a_trial_that_fails_or_an_answer_that_is_none_is_an_unavailable_part(answer, reason):
    with pytest.raises(StoreUnavailableError, match=reason) as caught:
        LambdaTrials("f", Broken(answer)).ask(QUESTION)
    assert caught.value.part == "trials"


def test_clients_are_opened_at_the_first_call(aws, clock):
    ids, waker, trials = (
        LambdaIds("missing", clock),
        LambdaWaker("missing"),
        LambdaTrials("missing"),
    )

    for call in (
        lambda: ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1),
        lambda: waker.wake(1),
        lambda: trials.ask(QUESTION),
    ):
        with pytest.raises(StoreUnavailableError, match="ResourceNotFoundException"):
            call()


def test_a_client_that_cannot_be_made_is_an_unavailable_part(clock, monkeypatch):
    """An error of botocore about a wrong environment becomes StoreUnavailableError, too."""
    monkeypatch.setenv("AWS_PROFILE", "missing")
    ids, waker, trials = LambdaIds("issuer", clock), LambdaWaker("consumer"), LambdaTrials("c")

    for call in (
        lambda: ids.take(QUEUE_KEY, IdKind.SNOWFLAKE, 1),
        lambda: waker.wake(1),
        lambda: trials.ask(QUESTION),
    ):
        with pytest.raises(StoreUnavailableError, match="ProfileNotFound"):
            call()
