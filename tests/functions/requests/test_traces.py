"""One trace from a caller's span through the API and a consumer to the records (SPEC.md H12)."""

import pytest

from tests.collector import collector
from tests.functions.apps.test_clock import tick
from tests.functions.http import ask
from tests.kit.kernel import names, tracing
from tests.kit.worlds.functions import STAGE, biz, default_bizs
from tests.waiting import eventually

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
GONE = "http://127.0.0.1:9/a"


@pytest.fixture(autouse=True)
def _cold(world, monkeypatch):
    # A collector that answers is waited for, however slow the machine is.
    monkeypatch.setattr(tracing, "SECONDS", 60.0)
    yield
    world.end_environments()


def push(world, **stage):
    docs = biz(retry={"max_attempts": 1})
    world.push(default_bizs() | {"acme": {"docs": docs}}, stage=stage)
    world.end_environments()


def submit(world, **headers):
    answer = ask(world, "POST", "/v1/docs/requests", {"url": GONE}, headers=headers)
    assert answer.status == 202, answer.text
    return answer.json["id"]


def spans_of(asked):
    return [
        span
        for _, content in asked
        for span in content["resourceSpans"][0]["scopeSpans"][0]["spans"]
    ]


def test_a_callers_trace_goes_on_to_the_stages_collector_and_explain_links_it(world):
    with collector() as (otlp, asked):
        push(world, otlp_endpoint=otlp, trace_url="https://traces.example/{trace}?from=cf")
        an_id = submit(world, Traceparent=f"00-{TRACE}-{SPAN}-01")
        world.work()

    spans = spans_of(asked)
    assert {span["traceId"] for span in spans} == {TRACE}
    by_name = {span["name"]: span for span in spans}
    assert by_name["submission"]["parentSpanId"] == SPAN
    assert by_name["attempt"]["parentSpanId"] == by_name["submission"]["spanId"]
    assert by_name["attempt"]["status"]["code"] == 2
    found = ask(world, "GET", f"/v1/docs/requests/{an_id}/explain").json
    assert found["trace"] == TRACE
    assert found["trace_url"] == f"https://traces.example/{TRACE}?from=cf"


def traced_parts(world, path, document):
    """Make a call in a trace, have what becomes of it done; return the spans."""
    with collector() as (otlp, asked):
        push(world, otlp_endpoint=otlp)
        answer = ask(world, "POST", path, document, headers={"traceparent": PARENT})
        assert answer.status in {200, 201}, answer.text

        def attempted():
            tick(world)
            world.work()
            return len([one for one in spans_of(asked) if one["name"] == "attempt"]) == 2

        eventually(attempted, what="attempts of both")
    return spans_of(asked)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/v1/docs/jobs", {"rule": "page", "urls": [GONE, f"{GONE}/b"]}),
        ("/v1/docs/seeds", {"seeds": [{"url": GONE}, {"url": f"{GONE}/b"}]}),
    ],
)
def test_what_a_job_and_seeds_make_is_in_the_trace_of_their_caller(world, path, document):
    spans = traced_parts(world, path, document)

    assert {span["traceId"] for span in spans} == {TRACE}
    submitted = [span for span in spans if span["name"] == "submission"]
    assert [span["parentSpanId"] for span in submitted] == [SPAN, SPAN]
    attempts = {span["parentSpanId"] for span in spans if span["name"] == "attempt"}
    assert attempts == {span["spanId"] for span in submitted}


def test_a_job_that_stands_already_is_the_same_one_in_whatever_trace_it_is_asked_for(world):
    order = {"rule": "page", "urls": [GONE], "name": "june"}
    for parent, status in ((PARENT, 201), (None, 200), (PARENT.replace("4bf", "abc"), 200)):
        headers = {} if parent is None else {"traceparent": parent}
        assert ask(world, "POST", "/v1/docs/jobs", order, headers=headers).status == status


@pytest.mark.parametrize("header", [f"00-{TRACE}-{SPAN}-00", "nonsense", ""])
def test_a_header_of_no_recorded_trace_is_as_if_there_were_none(world, header):
    an_id = submit(world, traceparent=header)

    assert ask(world, "GET", f"/v1/docs/requests/{an_id}/explain").json["trace"] != TRACE


def test_the_environments_collector_goes_before_the_stages(world, monkeypatch):
    with collector() as (otlp, asked), collector() as (other, not_asked):
        monkeypatch.setenv(names.ENV_OTLP_ENDPOINT, otlp)
        push(world, otlp_endpoint=other)
        submit(world, traceparent=f"00-{TRACE}-{SPAN}-01")

    assert [span["name"] for span in spans_of(asked)] == ["submission"]
    assert not_asked == []


def test_another_collector_is_in_force_with_the_next_call_and_none_after_it_is_taken_out(world):
    with collector() as (first, asked), collector() as (second, later):
        for otlp in (first, second, None):
            docs = biz(retry={"max_attempts": 1})
            stage = {} if otlp is None else {"otlp_endpoint": otlp}
            world.push(default_bizs() | {"acme": {"docs": docs}}, stage=stage)
            submit(world, traceparent=f"00-{TRACE}-{SPAN}-01")

    assert [len(spans_of(asked)), len(spans_of(later))] == [1, 1]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("otlp_endpoint", "http://me:secret@collector:4318"),
        ("otlp_endpoint", "collector:4318"),
        ("trace_url", "https://traces.example/"),
    ],
)
def test_an_address_that_is_none_is_refused_with_the_fields_name(world, field, value):
    with pytest.raises(Exception, match=field):
        world.push(default_bizs(), stage={field: value})


HEADERS = {"X-Key": {"secret": "vendor"}, "X-Team": "crawlers"}


@pytest.fixture
def vendor(world):
    name = names.collector_secret(STAGE, "vendor")
    world.secrets.create_secret(Name=name, SecretString="s3cr3t-1\n")
    yield name
    world.secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)


def test_a_collector_is_told_the_stages_secret_which_nobody_is_shown(world, vendor, caplog):
    given: list = []
    with collector(key="s3cr3t-1", given=given) as (otlp, asked):
        push(world, otlp_endpoint=otlp, otlp_headers=HEADERS)
        an_id = submit(world, traceparent=PARENT)
        world.work()

    assert {span["name"] for span in spans_of(asked)} >= {"submission", "attempt"}
    assert set(given) == {"s3cr3t-1"}
    found = ask(world, "GET", f"/v1/docs/requests/{an_id}/explain").text
    stored = [str(parts.config.current()) for parts in world.parts]
    assert all("s3cr3t" not in text for text in (found, *stored, caplog.text))


def test_a_rotated_secret_is_read_again_when_the_collector_refuses_the_old_one(world, vendor):
    given: list = []
    with collector(key="s3cr3t-2", given=given) as (otlp, asked):
        push(world, otlp_endpoint=otlp, otlp_headers=HEADERS)
        world.own.secrets.read(vendor)
        world.secrets.put_secret_value(SecretId=vendor, SecretString="s3cr3t-2")
        submit(world, traceparent=PARENT)

    assert given[-1] == "s3cr3t-2"
    assert [span["name"] for span in spans_of(asked)] == ["submission"]


def test_the_environments_collector_is_not_told_the_stages_secret(world, vendor, monkeypatch):
    given: list = []
    with collector(given=given) as (otlp, _):
        monkeypatch.setenv(names.ENV_OTLP_ENDPOINT, otlp)
        push(world, otlp_endpoint="http://127.0.0.1:9", otlp_headers=HEADERS)
        submit(world, traceparent=PARENT)

    assert given == [None]


@pytest.mark.parametrize("text", [None, "two\nlines of s3cr3t"])
def test_a_secret_that_is_missing_or_no_headers_value_costs_spans_alone(
    world, vendor, text, caplog
):
    if text is None:
        world.secrets.delete_secret(SecretId=vendor, ForceDeleteWithoutRecovery=True)
    else:
        world.secrets.put_secret_value(SecretId=vendor, SecretString=text)
    with collector() as (otlp, asked):
        push(world, otlp_endpoint=otlp, otlp_headers=HEADERS)
        submit(world, traceparent=PARENT)
    if text is None:
        world.secrets.create_secret(Name=vendor, SecretString="x")

    assert asked == []
    assert f"secret {vendor}: " in caplog.text
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize(
    ("stage", "named"),
    [
        ({"otlp_headers": HEADERS}, "otlp_headers: go to otlp_endpoint, which is missing"),
        (
            {"otlp_endpoint": "http://a.example", "otlp_headers": {"X Y": "1"}},
            "otlp_headers",
        ),
        (
            {"otlp_endpoint": "http://a.example", "otlp_headers": {"X": {"secret": "a/b"}}},
            "otlp_headers.X.secret",
        ),
        (
            {"otlp_endpoint": "http://a.example", "otlp_headers": {"X": "two\nlines"}},
            "otlp_headers.X",
        ),
    ],
)
def test_headers_that_are_none_are_refused_with_the_fields_name(world, stage, named):
    with pytest.raises(Exception, match=named):
        world.push(default_bizs(), stage=stage)
