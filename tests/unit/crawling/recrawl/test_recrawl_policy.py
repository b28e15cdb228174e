import itertools
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import Biz, Field, Generation, RecrawlPolicy, Rule, biz_problems, unchecked
from tests.kit.recrawl import condition, next_visit, put_off, recrawl, validators_of
from tests.kit.requests import Body, Validators, Visit, is_visit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, DAY = 3_600.0, 86_400.0
POLICY = RecrawlPolicy(schedule=True)
BODY = Body(url="https://example.org/", rule="page", rule_version="v1", depth=2)
KEY = "ab" * 16
PAGE = Rule(fields={"title": Field(css="title")})
TAG = Validators(etag='"1"')


def visit(previous: Visit | None, content: str = "aa", **changes: object) -> Visit:
    facts: dict = {
        "policy": POLICY,
        "key": KEY,
        "body": BODY,
        "status": 200,
        "validators": TAG,
        "now": NOW if previous is None else previous.next_at or previous.visited_at,
    }
    return next_visit(previous=previous, content=content, **(facts | changes))


# ---- what a site says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "etag", ['"abc"', 'W/"abc"', '""', '"a,b"', "abc-1:2", "W/abc", '"' + "x" * 510 + '"']
)
def test_an_etag_is_kept_as_it_was_sent(etag):
    assert validators_of({"etag": f" {etag} "}, NOW) == Validators(etag=etag)


@pytest.mark.parametrize(
    "etag", ["", "*", '"a", "b"', '"a\r\nX: y"', '"é"', '"' + "x" * 511 + '"', '"a', 'a"']
)
def test_what_is_no_etag_or_would_match_everything_is_not_kept(etag):
    assert validators_of({"etag": etag}, NOW).etag is None


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 01 Mar 2026 11:00:00 GMT",
        "Sunday, 01-Mar-26 11:00:00 GMT",
        "Sun Mar  1 11:00:00 2026",
        "Mon, 02 Mar 2026 11:00:00 GMT",
    ],
)
def test_a_date_of_modification_is_kept_as_it_was_sent(date):
    assert validators_of({"last-modified": date}, NOW) == Validators(last_modified=date)


@pytest.mark.parametrize(
    "date",
    [
        "",
        "0",
        "-1",
        "yesterday",
        "2026-03-01",
        "Mon, 02 Mar 2026 13:00:00 GMT",
        "Sun, 01 Mar 2026 11:00:00 GMT\r\nX: y",
        "Sun, 01 Mar 2026 11:00:00 GMT" + " " * 60 + "x",
        "Sun, 01 Mar 99999 11:00:00 GMT",
    ],
)
def test_what_is_no_date_or_lies_in_the_future_is_not_kept(date):
    assert validators_of({"last-modified": date}, NOW).last_modified is None


@given(st.text(max_size=80), st.text(max_size=80))
def test_nothing_a_site_sends_breaks_out_of_its_header(etag, date):
    kept = validators_of({"etag": etag, "last-modified": date}, NOW)

    for one in (kept.etag, kept.last_modified):
        assert one is None or (one.isascii() and one.isprintable())


# ---- what is asked of it -------------------------------------------------------------------------


def test_a_page_that_was_read_by_the_same_rule_is_asked_for_conditionally():
    assert condition(POLICY, visit(None), BODY) == TAG


@pytest.mark.parametrize(
    ("policy", "previous", "body"),
    [
        (POLICY, None, BODY),
        (replace(POLICY, conditional=False), visit(None), BODY),
        (POLICY, visit(None, validators=Validators()), BODY),
        (POLICY, visit(None), replace(BODY, rule="other")),
        (POLICY, visit(None), replace(BODY, rule_version="v2")),
    ],
)
def test_a_page_is_read_in_full(policy, previous, body):
    assert condition(policy, previous, body) is None


def test_a_site_that_never_says_anything_but_304_is_not_believed_for_ever():
    known, full = visit(None), 0
    for _ in range(100):
        sent = condition(POLICY, known, BODY)
        full += sent is None
        known = visit(known, status=304 if sent else 200)

    assert (full, known.saved) == (5, 95)


@pytest.mark.parametrize(
    "changes",
    [{"method": "HEAD"}, {"body": "x"}, {"headers": {"a": "b"}}, {"params": {"q": "1"}}],
)
def test_only_what_anybody_would_see_is_a_visit(changes):
    assert is_visit(BODY)
    assert not is_visit(replace(BODY, **changes))


# ---- what is remembered --------------------------------------------------------------------------


def test_a_first_visit_is_followed_after_the_first_interval():
    first = visit(None)

    assert (first.visits, first.changes, first.saved) == (1, 0, 0)
    assert (first.visited_at, first.changed_at, first.content) == (NOW, NOW, "aa")
    assert (first.rule, first.rule_version, first.depth) == ("page", "v1", 2)
    assert first.interval_seconds == DAY
    assert timedelta(days=1) <= first.next_at - NOW <= timedelta(days=1.1)


def test_what_a_request_carried_is_kept_for_whoever_reads_the_page_again():
    body = replace(BODY, meta={"list_page": 3})

    first = visit(None, body=body)

    assert first.meta == {"list_page": 3}
    assert visit(first, body=body, status=304).meta == {"list_page": 3}


def test_a_304_is_a_visit_that_is_saved_and_keeps_what_was_known():
    first = visit(None, validators=Validators(etag='"1"', last_modified="x"))

    second = visit(first, content="", status=304, validators=Validators(etag='W/"1"'))

    assert (second.visits, second.changes, second.saved) == (2, 0, 1)
    assert second.content == first.content
    assert second.changed_at == first.changed_at
    assert second.validators == Validators(etag='W/"1"', last_modified="x")
    assert second.interval_seconds > first.interval_seconds
    third = visit(second, status=304, validators=Validators())
    assert third.validators == second.validators


def test_other_content_is_a_change():
    first = visit(None)
    second = visit(first, "bb", validators=Validators())

    assert (second.visits, second.changes, second.saved) == (2, 1, 0)
    assert (second.changed_at, second.content) == (second.visited_at, "bb")
    assert not second.validators
    assert second.interval_seconds < first.interval_seconds


def test_an_edited_rule_reads_other_records_of_the_same_page():
    first = visit(None)

    second = visit(first, "bb", body=replace(BODY, rule_version="v2"))
    third = visit(second, "cc", body=replace(BODY, rule_version="v2"))

    assert (second.changes, second.interval_seconds) == (0, first.interval_seconds)
    assert (third.changes, third.content) == (1, "cc")


def test_without_a_schedule_a_page_is_due_never():
    assert visit(None, policy=RecrawlPolicy()).next_at is None


def test_pages_that_were_read_at_once_are_not_due_at_once():
    due = sorted(visit(None, key=f"{n:032x}").next_at for n in range(1_000))

    gaps = [later - sooner for sooner, later in itertools.pairwise(due)]
    assert due[-1] - due[0] > timedelta(days=0.095)
    assert max(gaps) < timedelta(days=0.1) / 50
    assert visit(None).next_at == visit(None).next_at


# ---- intervals -----------------------------------------------------------------------------------

policies = st.builds(
    lambda low, first, high: RecrawlPolicy(
        schedule=True, min_seconds=low, first_seconds=low * first, max_seconds=low * first * high
    ),
    st.floats(1, 1e5),
    st.floats(1, 30),
    st.floats(1, 30),
)
#: Visits: after how many of the intervals, and what was found (None: 304).
histories = st.lists(
    st.tuples(st.floats(0, 3), st.sampled_from(["same", "other", None])), max_size=40
)


def lived(policy: RecrawlPolicy, history: list[tuple[float, str | None]]) -> Visit:
    known = visit(None, policy=policy)
    for number, (passed, found) in enumerate(history):
        known = visit(
            known,
            policy=policy,
            now=known.visited_at + timedelta(seconds=passed * known.interval_seconds),
            status=304 if found is None else 200,
            content=str(number) if found == "other" else known.content,
        )
    return known


@given(policies, histories)
def test_an_interval_is_always_within_its_bounds(policy, history):
    known = lived(policy, history)

    assert policy.min_seconds <= known.interval_seconds <= policy.max_seconds
    passes = (known.next_at - known.visited_at).total_seconds()
    assert known.interval_seconds - 0.001 <= passes <= known.interval_seconds * 1.1 + 0.001


@given(policies, histories)
def test_every_visit_is_counted_once(policy, history):
    known = lived(policy, history)

    found = [one for _, one in history]
    assert known.visits == 1 + len(history)
    assert (known.changes, known.saved) == (found.count("other"), found.count(None))


@given(
    policies,
    st.lists(st.tuples(st.floats(0, 1e7), st.sampled_from([(0, 0), (0, 1), (1, 1)])), max_size=40),
)
def test_more_changes_never_come_to_a_longer_interval(policy, history):
    """Two pages that are visited at the same times; whenever one had changed, so had the other."""
    calm = busy = visit(None, policy=policy)

    for number, (passed, changed) in enumerate(history):
        now = calm.visited_at + timedelta(seconds=passed)
        calm, busy = (
            visit(one, content=str(number) if did else one.content, policy=policy, now=now)
            for one, did in zip((calm, busy), changed, strict=True)
        )

        assert busy.interval_seconds <= calm.interval_seconds * (1 + 1e-9)


def test_a_step_keeps_the_order_of_intervals():
    assert 0 < recrawl.STEP < math.e / 3


def test_who_comes_back_in_a_moment_learns_nothing_of_a_page_that_is_the_same():
    first = visit(None)
    again = visit(first, now=NOW + timedelta(milliseconds=10))

    assert again.interval_seconds == pytest.approx(first.interval_seconds)


def test_a_clock_that_steps_back_shortens_nothing():
    first = visit(None)

    assert visit(first, now=NOW - timedelta(days=3)).interval_seconds == first.interval_seconds


def test_a_page_that_is_not_heard_of_is_submitted_ever_more_rarely():
    known, at, gaps = visit(None), NOW, []
    for _ in range(8):
        later = put_off(POLICY, known, max(at, known.next_at))
        gaps.append((later - max(at, known.next_at)).total_seconds() / DAY)
        at = later

    assert gaps[0] < 1.2
    assert gaps[4] > 15
    assert gaps[-1] == 30


# ---- against other ways --------------------------------------------------------------------------


@dataclass
class Reported:
    """The figures of a recrawl policy: averages over pages and time."""

    downloads: int
    fresh: float
    age_hours: float
    caught: int


def simulate(interval_after, rates: list[float], days: float, first: float) -> Reported:
    """Visit pages that change at these rates a second, at random (Poisson)."""
    chance = random.Random(7)
    span, reported, fresh, age = days * DAY, Reported(0, 0, 0, 0), 0.0, 0.0
    for rate in rates:
        at, interval, change = 0.0, first, chance.expovariate(rate)
        while at < span:
            visited = min(at + interval, span)
            changed = change <= visited
            since = change if changed else visited
            fresh += since - at
            age += (visited - since) ** 2 / 2
            while change <= visited:
                change += chance.expovariate(rate)
            reported.downloads += 1
            reported.caught += changed
            interval, at = interval_after(interval, visited - at, changed), visited
    reported.fresh = fresh / span / len(rates)
    reported.age_hours = age / span / len(rates) / HOUR
    return reported


def ours(interval: float, passed: float, changed: bool) -> float:
    known = Visit(
        key=KEY,
        url=BODY.url,
        rule="page",
        rule_version="v1",
        visited_at=NOW,
        changed_at=NOW,
        interval_seconds=interval,
        content="aa",
    )
    content = "bb" if changed else "aa"
    return visit(known, content, now=NOW + timedelta(seconds=passed)).interval_seconds


def doubling(interval: float, _: float, changed: bool) -> float:
    """Apache Nutch's AdaptiveFetchSchedule, with its usual 0.2 and 0.4."""
    return min(max(interval * (0.8 if changed else 1.4), POLICY.min_seconds), POLICY.max_seconds)


def test_copies_are_fresher_and_less_old_than_by_one_interval_that_costs_as_much():
    """A page changes once an hour, or once in 14 months, or anything between."""
    rates = [1 / HOUR * 10 ** (-4 * (n + 0.5) / 100) for n in range(100)]
    days = 240.0

    adaptive = simulate(ours, rates, days, DAY)
    even = days * DAY * len(rates) / adaptive.downloads
    fixed = simulate(lambda *_: even, rates, days, even)
    nutch = simulate(doubling, rates, days, DAY)
    even = days * DAY * len(rates) / nutch.downloads
    beside_nutch = simulate(lambda *_: even, rates, days, even)

    assert adaptive.downloads == pytest.approx(fixed.downloads, rel=0.01)
    assert adaptive.fresh > fixed.fresh
    assert adaptive.age_hours < 0.95 * fixed.age_hours
    assert adaptive.caught > 1.7 * fixed.caught
    # Why it is not the simple rule: that leaves copies older than no rule at all.
    assert nutch.fresh < beside_nutch.fresh
    assert nutch.age_hours > beside_nutch.age_hours


def test_intervals_come_to_their_bounds_where_pages_always_or_never_change():
    interval, days = DAY, 0.0
    while interval > POLICY.min_seconds:
        interval, days = ours(interval, interval, changed=True), days + interval / DAY
    assert days < 60

    while interval < POLICY.max_seconds:
        interval, days = ours(interval, interval, changed=False), days + interval / DAY
    assert days < 800


# ---- the document --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (RecrawlPolicy(), []),
        (RecrawlPolicy(min_seconds=10, max_seconds=5), ["recrawl.max_seconds"]),
        (RecrawlPolicy(first_seconds=60), ["recrawl.first_seconds"]),
        (RecrawlPolicy(schedule=True, forget_seconds=2_600_000), ["recrawl.forget_seconds"]),
        (RecrawlPolicy(forget_seconds=2_600_000), []),
    ],
)
def test_a_policy_that_contradicts_itself_is_named(policy, fields):
    generation = Generation(starts_at=NOW, nodes=("main",), databases=("docs",))
    biz = Biz(generations=(generation,), rules={"page": PAGE}, recrawl=policy)

    assert [problem.field for problem in biz_problems(biz, unchecked)] == fields


@pytest.mark.parametrize("seconds", [0, 0.5, -1, 1e12])
def test_no_interval_is_too_short_or_too_long_for_a_clock(seconds):
    text = msgspec.json.encode({"max_seconds": seconds})

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=RecrawlPolicy)
