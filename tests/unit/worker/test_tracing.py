"""One trace of a request: submission, queue, attempt, hops, reading, settling (H12)."""

import gc
import json
import socket
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.collector import collector
from tests.kit.kernel import StoreUnavailableError, tracing
from tests.kit.requests import Page, Submission
from tests.kit.worker import Traces
from tests.kit.worlds.memory import DOCS, make_tree
from tests.kit.worlds.worker import tracked, work
from tests.unit.worker.pages_read import leased_by

PAGES = {"https://example.org/a": b"<title>A</title>"}
URL = "https://example.org/a"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that answers is waited for, however slow the machine is."""
    monkeypatch.setattr(tracing, "SECONDS", 60.0)


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(60.0)
        yield listening


def address(of: socket.socket) -> str:
    return f"127.0.0.1:{of.getsockname()[1]}"


def received(daemon: socket.socket, count: int) -> list[dict]:
    found = []
    for _ in range(count):
        head, _, document = daemon.recv(65_536).partition(b"\n")
        assert json.loads(head) == {"format": "json", "version": 1}
        found.append(json.loads(document))
    return found


def submit(world, tracer, *, count=1, **options) -> list[int]:
    pages = [Submission(url=URL)] * count
    submissions = world.submission(tracer=tracer)
    taken = submissions.submit(world.tree, "default", "docs", pages, world.now, **options)
    return [receipt.id for receipt in taken]


def a_span(**changes) -> tracing.Span:
    trace = tracing.trace_of("acme/docs", 7, 1_800_000_000.0)
    span = tracing.Span(trace=trace, part="submission", name="submission", begun=1.0, ended=2.0)
    return replace(span, **changes)


def test_the_share_that_is_traced_is_the_stated_one_and_the_same_every_time():
    # Snowflakes of single submissions have all but their time in common; a biz may have other ids.
    singles = [n << 22 | 5 << 12 for n in range(20_000)]
    for ids in (list(range(20_000)), singles, [f"{n:032x}" for n in range(20_000)]):
        assert tracing.sampled(ids, 0.0) == set()
        assert tracing.sampled(ids, 1.0) == set(ids)
        assert 150 < len(tracing.sampled(ids, 0.01)) < 250
        assert tracing.sampled(ids, 0.01) < tracing.sampled(ids, 0.02)


def test_a_request_has_one_trace_from_its_submission_to_its_records(world, daemon):
    world.tree = make_tree(replace(world.biz, trace_share=1.0))
    tracer = tracing.Tracer(address(daemon))

    (an_id,) = submit(world, tracer)
    trace = tracked(world, an_id).request.trace
    (first,) = received(daemon, 1)
    assert work(world, PAGES, tracer=tracer).done == 1
    spans = received(daemon, 5)

    assert {span["trace_id"] for span in (first, *spans)} == {tracing.xray_id(trace)}
    names = [span["name"].removeprefix("crawlfleet ") for span in (first, *spans)]
    assert names == ["submission", "queue", "attempt", "hop 0", "read", "settle"]
    queue, attempt, hop, read, settle = spans
    assert queue["parent_id"] == attempt["parent_id"] == first["id"]
    assert {one["parent_id"] for one in (hop, read, settle)} == {attempt["id"]}
    assert hop["annotations"] == {"url": URL, "status": 200}
    assert (attempt["annotations"]["records"], attempt.get("fault")) == (1, None)
    assert all(span["end_time"] >= span["start_time"] for span in spans)


def test_each_redirect_is_a_hop_of_the_same_trace_one_after_the_other(world, daemon):
    world.tree = make_tree(replace(world.biz, trace_share=1.0))
    tracer = tracing.Tracer(address(daemon))
    ways = [URL, "https://example.org/b", "https://elsewhere.example/c"]
    there = Page(url=ways[2], status=200, headers={}, body=b"<title>C</title>", redirects=ways[:2])
    submit(world, tracer)
    received(daemon, 1)

    assert work(world, {URL: there}, tracer=tracer).done == 1

    spans = received(daemon, 7)
    attempt, *hops = spans[1:5]
    assert len({span["trace_id"] for span in spans}) == 1
    assert [hop["name"].removeprefix("crawlfleet ") for hop in hops] == ["hop 0", "hop 1", "hop 2"]
    assert {hop["parent_id"] for hop in hops} == {attempt["id"]}
    assert [hop["annotations"]["url"] for hop in hops] == ways
    assert [hop["annotations"].get("status") for hop in hops] == [None, None, 200]
    assert all(one["end_time"] <= later["start_time"] for one, later in pairwise(hops))


CALLER = tracing.Caller("ab" * 16, "cd" * 8)


def test_what_a_traced_caller_submits_is_in_the_callers_trace_each_request_by_itself(world, daemon):
    world.tree = make_tree(replace(world.biz, trace_share=0.001))
    tracer = tracing.Tracer(address(daemon))

    ids = submit(world, tracer, count=2, caller=CALLER)
    first, second = received(daemon, 2)
    assert work(world, PAGES, tracer=tracer).done == 2
    spans = received(daemon, 10)

    assert {tracked(world, one).request.trace for one in ids} == {CALLER.trace}
    assert {one["trace_id"] for one in (first, second, *spans)} == {tracing.xray_id(CALLER.trace)}
    assert first["parent_id"] == second["parent_id"] == CALLER.span
    assert len({one["id"] for one in (first, second, *spans)}) == 12
    attempts = [one["parent_id"] for one in spans if one["name"] == "crawlfleet attempt"]
    assert sorted(attempts) == sorted([first["id"], second["id"]])


def test_where_a_biz_traces_nothing_a_callers_trace_is_not_continued(world, daemon):
    world.tree = make_tree(replace(world.biz, trace_share=0.0))

    (an_id,) = submit(world, tracing.Tracer(address(daemon)), caller=CALLER)

    assert tracked(world, an_id).request.trace is None


def test_a_record_has_the_trace_of_its_request(world):
    world.tree = make_tree(replace(world.biz, trace_share=1.0))
    (an_id,) = submit(world, tracing.NO_TRACER)
    assert work(world, PAGES).done == 1

    [record] = world.store.records(DOCS, world.biz, request_id=an_id, after=None, limit=9)

    assert record.trace == tracked(world, an_id).request.trace is not None


TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header",
    [
        f"00-{TRACE}-{SPAN}-01",
        f" 00-{TRACE}-{SPAN}-03 ",
        f"01-{TRACE}-{SPAN}-01-what-a-later-version-adds",
    ],
)
def test_a_traceparent_of_a_recorded_trace_is_read(header):
    assert tracing.caller_of(header) == tracing.Caller(TRACE, SPAN)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}é-{SPAN}-01",
        "00-" + "a" * 10_000,
    ],
)
def test_a_traceparent_that_is_none_or_of_no_recorded_trace_is_as_if_there_were_none(header):
    assert tracing.caller_of(header) is None


def test_the_collector_may_change_while_running_and_a_new_one_is_tried_at_once():
    with collector(500) as (bad, _), collector() as (good, asked):
        at = [bad]
        tracer = tracing.Tracer(otlp=lambda: at[0])
        tracer.send([a_span()])
        at[0] = good
        tracer.send([a_span()])
        at[0] = None
        tracer.send([a_span()])
        assert not tracer.sends

    assert len(asked) == 1


def test_an_attempt_that_fails_says_why_and_the_next_one_is_of_the_same_trace(world, daemon):
    world.tree = make_tree(replace(world.biz, trace_share=1.0))
    tracer = tracing.Tracer(address(daemon))
    submit(world, tracer)
    received(daemon, 1)

    work(world, {}, tracer=tracer)
    attempt = next(span for span in received(daemon, 3) if span["name"] == "crawlfleet attempt")

    assert attempt["fault"] is True
    assert attempt["metadata"]["error"]


def test_what_is_not_traced_sends_nothing_and_keeps_nothing(world, daemon):
    world.tree = make_tree(replace(world.biz, trace_share=0.0))
    tracer = tracing.Tracer(address(daemon))

    (an_id,) = submit(world, tracer)
    assert work(world, PAGES, tracer=tracer).done == 1

    assert tracked(world, an_id).request.trace is None
    daemon.settimeout(0.0)
    with pytest.raises(BlockingIOError):
        daemon.recv(1)


def test_an_attempt_that_is_never_settled_is_kept_no_longer_than_its_request(world):
    taken = leased_by(world, world.biz.reader("page"))
    traced = replace(taken.claim.request, trace="6b49d200" + "0" * 24)
    taken.claim = replace(taken.claim, request=traced)
    traces = Traces(tracing.Tracer("127.0.0.1:2000"))
    kept = weakref.ref(traces.begin(taken))
    assert kept() is not None

    del taken, traced
    gc.collect()

    assert kept() is None


def test_a_collector_gets_the_same_spans_by_otlp():
    with collector() as (otlp, asked):
        tracing.Tracer(otlp=lambda: f"{otlp}/otel").send(
            [a_span(), a_span(part="attempt 1", parent="submission", name="attempt", error="no")]
        )

    ((path, content),) = asked
    first, second = content["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert path == "/otel/v1/traces"
    assert first["traceId"] == second["traceId"]
    assert second["parentSpanId"] == first["spanId"]
    assert second["status"] == {"code": 2, "message": "no"}
    assert first["endTimeUnixNano"] == "2000000000"


@pytest.mark.parametrize("status", [400, 500])
def test_a_collector_that_refuses_is_left_alone_for_a_minute(status, caplog):
    with collector(status) as (otlp, asked):
        tracer = tracing.Tracer(otlp=lambda: otlp)
        for _ in range(3):
            tracer.send([a_span()])

    assert len(asked) == 1
    assert "not sent to the collector" in caplog.text


def test_a_collector_that_is_dead_or_silent_costs_a_second_once(monkeypatch):
    monkeypatch.setattr(tracing, "SECONDS", 0.1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        tracer = tracing.Tracer(otlp=lambda: f"http://{address(silent)}")
        for _ in range(3):
            tracer.send([a_span()])
        assert tracer._later > 0


def test_a_collector_that_refuses_a_key_is_told_it_anew_once():
    keys, read = ["old", "new"], []

    def headers(_, *, renew):
        read.append(renew)
        return {"X-Key": keys[renew]}

    given: list = []
    with collector(key="new", given=given) as (otlp, asked):
        tracer = tracing.Tracer(otlp=lambda: otlp, headers=headers)
        tracer.send([a_span()])
        assert (given, read, len(asked)) == (["old", "new"], [False, True], 1)
        keys[1] = "old"
        tracer.send([a_span()])
        tracer.send([a_span()])

    assert given == ["old", "new", "old"], "what is the same is not tried again, nor for a while"


def test_where_the_key_cannot_be_read_the_collector_is_left_alone_for_a_while(caplog):
    asked_for = []

    def away(address, *, renew):
        asked_for.append((address, renew))
        raise StoreUnavailableError("secretsmanager", "timed out")

    with collector() as (otlp, asked):
        tracer = tracing.Tracer(otlp=lambda: otlp, headers=away)
        for _ in range(3):
            tracer.send([a_span()])

    assert (asked, asked_for) == ([], [(otlp, False)])
    assert "secretsmanager" in caplog.text


@pytest.mark.parametrize("headers", [{"X-Key": "s3cr3t\nX: y"}, {"X-Key": "s3cr3t\u2026"}])
def test_a_key_that_is_no_headers_value_is_not_in_the_log(headers, caplog):
    with collector() as (otlp, asked):
        tracing.Tracer(otlp=lambda: otlp, headers=lambda _, *, renew: headers).send([a_span()])

    assert asked == []
    assert "not sent to the collector" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_no_span_has_the_credentials_of_an_address():
    segment = tracing.as_segment(a_span(facts={"url": "https://me:s3cr3t@a.example/?token=s3cr3t"}))

    assert b"s3cr3t" not in segment
