"""Rules of a stage, tried on one machine: what they match, what they hand over, what it starts."""

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from infra.local.__main__ import NOT_RUNNING, main
from infra.local.cloud import LocalCloud
from infra.local.events import event_for, find_rule, input_of, matches, read_event
from infra.local.parts import PartError
from infra.stages import EVERY_MINUTE, ON_EVENT
from tests.kit.sdk import Client

STAGE = "localstack"
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
EVENT = {
    "id": "17793124-05d4",
    "source": "crawlfleet.journey",
    "detail-type": "Pages Ready",
    "detail": {"package": "json"},
}


def written(folder, content):
    path = folder / "event.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


# ---- what a rule makes of an event ---------------------------------------------------------------


def test_an_event_becomes_what_the_rule_says_and_is_known_by_its_id():
    event = event_for(ON_EVENT, STAGE, EVENT, NOON)

    assert input_of(ON_EVENT, event) == {
        "crawlfleet": "start",
        "tenant": "default",
        "biz": "docs",
        "spider": "on-event",
        "values": {"package": "json"},
        "id": "17793124-05d4",
        "time": "2026-03-10T12:00:00Z",
    }


def test_an_event_without_an_id_is_given_one_as_eventbridge_does():
    given = {name: value for name, value in EVENT.items() if name != "id"}

    first, second = (event_for(ON_EVENT, STAGE, given, NOON)["id"] for _ in range(2))

    assert first != second


def test_a_clock_fires_at_a_time_by_which_it_is_known():
    said = input_of(EVERY_MINUTE, event_for(EVERY_MINUTE, STAGE, None, NOON))

    assert said == {
        "crawlfleet": "start",
        "tenant": "default",
        "biz": "docs",
        "spider": "by-clock",
        "time": "2026-03-10T12:00:00Z",
    }


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ({"source": ["crawlfleet.journey", "another"]}, True),
        ({"source": [{"prefix": "crawlfleet."}], "detail": {"package": [{"exists": True}]}}, True),
        ({"source": ["crawlfleet.journey"], "detail": {"package": ["xml"]}}, False),
        ({"detail-type": [{"anything-but": "Pages Ready"}]}, False),
        ({"source": ["crawlfleet.journey"], "detail": {"size": [{"numeric": [">", 1]}]}}, False),
    ],
)
def test_a_pattern_matches_as_eventbridge_has_it(pattern, matching):
    assert matches(pattern, EVENT) is matching


def test_what_is_no_pattern_is_reported():
    with pytest.raises(PartError, match="pattern"):
        matches({"source": "crawlfleet.journey"}, EVENT)


@pytest.mark.parametrize(
    ("rule", "given", "said"),
    [
        (ON_EVENT, None, "wants an event"),
        (ON_EVENT, {**EVENT, "detail-type": "Pages Gone"}, "does not match this event"),
        (EVERY_MINUTE, EVENT, "it gets no event"),
    ],
)
def test_what_a_rule_would_not_get_is_not_handed_over(rule, given, said):
    with pytest.raises(PartError, match=said):
        event_for(rule, STAGE, given, NOON)


@pytest.mark.parametrize("detail", [{}, {"package": {}}, {"package": "json"}])
def test_a_path_that_leads_nowhere_in_the_event_is_named(detail):
    deeper = dataclasses.replace(ON_EVENT, values={"package": "$.detail.package.name"})

    with pytest.raises(PartError, match=r"\$\.detail\.package\.name"):
        input_of(deeper, event_for(deeper, STAGE, {**EVENT, "detail": detail}, NOON))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ([], "is no event: one has `source`"),
        ({"detail": {}}, "is no event: one has `source`"),
        ({**EVENT, "Detail": {}}, "is no event: none has Detail"),
        (json.dumps({**EVENT, "detail": "x" * 300_000}), "larger than the 262,144 bytes"),
    ],
)
def test_a_file_that_has_no_event_is_refused_with_the_reason(tmp_path, content, said):
    with pytest.raises(PartError, match=said):
        read_event(written(tmp_path, content))


def test_a_rule_that_there_is_not_is_reported_with_those_there_are():
    with pytest.raises(PartError, match=r"no rule 'other'.*pages-ready, every-minute"):
        find_rule(STAGE, "other")
    with pytest.raises(PartError, match=r"RULE.*localstack.*pages-ready, every-min"):
        find_rule("aws-small", "")
    with pytest.raises(PartError, match="no stage 'nowhere'"):
        find_rule("nowhere", "other")


# ---- on a platform that runs ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    with (
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.delenv("REDIS_URL", raising=False)
        patch.delenv("MONGODB_URI", raising=False)
        with LocalCloud(tmp_path_factory.mktemp("cloud"), ticking=False) as made:
            yield made


def tried(cloud, capsys, *arguments):
    """Run the event command; return its exit status, its parsed JSON output and its stderr."""
    state = str(cloud.folder.path)
    status = main(["event", "--state", state, "--stage", STAGE, "--json", *arguments])
    printed = capsys.readouterr()
    return status, json.loads(printed.out) if printed.out else None, printed.err


def test_an_event_that_comes_twice_starts_one_job_of_its_spider(cloud, tmp_path, capsys):
    file = str(written(tmp_path, EVENT))
    with Client(cloud.api_url, cloud.api_key) as client:
        # Nothing listens there: what becomes of the tasks is nothing to this.
        pattern = "http://127.0.0.1:9/{package}/{page}"
        client.put_spider(
            "docs", "on-event", rule="page", pattern=pattern, values={"page": range(1, 4)}
        )

        first = tried(cloud, capsys, "--rule", "pages-ready", "--event", file)
        again = tried(cloud, capsys, "--rule", "pages-ready", "--event", file)

        (job,) = client.jobs("docs", spider="on-event")
    assert first[0] == again[0] == 0
    assert first[1]["answer"]["job"] == again[1]["answer"]["job"] == job.name
    assert (job.by, job.size, job.values) == ("event", 3, {"package": "json"})


def test_a_clock_that_fires_twice_at_a_time_starts_one_job(cloud, capsys):
    with Client(cloud.api_url, cloud.api_key) as client:
        client.put_spider("docs", "by-clock", rule="page", urls="http://127.0.0.1:9/")

        times = ("2026-03-10T12:00Z", "2026-03-10T13:00+01:00", "2026-03-10T12:01Z")
        found = [tried(cloud, capsys, "--rule", "every-minute", "--at", at) for at in times]

        names = [one["answer"]["job"] for _, one, _ in found]
        assert names[0] == names[1] != names[2]
        assert {job.name for job in client.jobs("docs", spider="by-clock")} == set(names)
    assert "every-minute" in found[0][2]


def test_what_starts_nothing_is_reported_and_fails(cloud, tmp_path, capsys):
    other = written(tmp_path, {**EVENT, "detail": {"package": ".."}})

    status, said, error = tried(cloud, capsys, "--rule", "pages-ready", "--event", str(other))

    assert status == 1
    assert "refused" in said["answer"]
    assert "it starts nothing" in error


def test_where_nothing_runs_it_says_how_to_start_it(tmp_path, capsys):
    arguments = ["event", "--state", str(tmp_path), "--stage", STAGE, "--rule", "every-minute"]

    assert main(arguments) == NOT_RUNNING
    assert "`crawlfleet up --state " in capsys.readouterr().out
