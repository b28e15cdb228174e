"""``crawlfleet doctor`` on what the scheduler could not do."""

import pytest


@pytest.mark.parametrize(
    ("faults", "is_start", "is_work"),
    [
        ({"starts": 1}, True, False),
        ({"starts": 1, "jobs": 2}, True, True),
        ({"jobs": 2}, False, True),
    ],
)
def test_an_event_that_started_nothing_is_no_schedule_that_does_not_run(
    crawlfleet, api, faults, is_start, is_work
):
    api.platform.running["tick"] = {"seconds_ago": 9.0, "took_seconds": 1.0, "faults": faults}

    found = crawlfleet("doctor", "--json").json()["checks"]

    [advice] = [each["do"] for each in found if each["check"] == "scheduler"]
    assert ("mend the rule" in advice) == is_start
    assert ("schedules that do" in advice) == is_work
