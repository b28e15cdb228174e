"""``crawlfleet rule coverage``."""

import re

import pytest

from tests.kit.api_server import BIZ


@pytest.fixture
def counted(api):
    fields = [
        {"name": "price", "count": 3, "share": 0.75},
        {"name": "title\x1b[31m", "count": 4, "share": 1.0},
        {"name": "seller", "count": 0, "share": 0.0},
    ]
    api.findings.coverage = [
        {
            "rule": "detail",
            "version": "0a1b2c3d4e5f",
            "current": True,
            "pages": 20,
            "records": 4,
            "rejected": 3,
            "fields": fields,
            "hours": [
                {
                    "started_at": f"2026-03-01T0{hour}:00:00.000Z",
                    "pages": 10,
                    "records": 2,
                    "rejected": 0,
                    "fields": [{"name": "price", "count": count, "share": count / 2}],
                }
                for hour, count in ((8, 2), (9, 0))
            ],
        },
        {"rule": "detail", "version": "ffffffffffff", "records": 1, "pages": 1},
        {"rule": "list", "version": "111111111111", "current": True},
    ]


@pytest.mark.usefixtures("counted")
def test_each_hour_is_a_line_with_the_share_of_each_field(crawlfleet):
    done = crawlfleet("rule", "coverage", BIZ, "--hours", "--rule", "detail")

    assert done.code == 0
    first, second = (line for line in done.lines if "2026-03-01" in line)
    assert re.search(r"08:00.* 2 .*100\.0%.* 0\.0%", first)
    assert re.search(r"09:00.* 2 .* 0\.0%", second)
    assert "█" not in done.out


@pytest.mark.usefixtures("counted")
def test_each_field_has_a_bar_and_a_share(crawlfleet):
    done = crawlfleet("rule", "coverage", BIZ)

    assert done.code == 0
    assert re.search(r"0a1b2c3d4e5f \(in force\): 4 .* 20 .* 3 ", done.out)
    assert "rejected" not in crawlfleet("rule", "coverage", BIZ, "--rule", "list").out
    price, title, seller = (
        next(line for line in done.lines if line.strip().startswith(name))
        for name in ("price", "title", "seller")
    )
    assert "█" * 15 + " " in price
    assert "75.0%" in price
    assert "█" * 20 in title
    assert "█" not in seller
    assert "0.0%" in seller
    assert "\x1b" not in done.out


@pytest.mark.usefixtures("counted")
def test_versions_that_are_not_in_force_are_shown_when_asked_for(crawlfleet):
    assert "ffffffffffff" not in crawlfleet("rule", "coverage", BIZ).out
    assert "ffffffffffff (not in" in crawlfleet("rule", "coverage", BIZ, "--all").out


@pytest.mark.usefixtures("counted")
def test_one_rule_may_be_asked_for(crawlfleet):
    done = crawlfleet("rule", "coverage", BIZ, "--rule", "list")

    assert "list 111111111111" in done.out
    assert "detail" not in done.out


@pytest.mark.usefixtures("counted")
def test_scripts_get_every_version(crawlfleet):
    found = crawlfleet("rule", "coverage", BIZ, "--json").json()["coverage"]

    assert [(one["rule"], one["current"]) for one in found] == [
        ("detail", True),
        ("detail", False),
        ("list", True),
    ]
    assert found[0]["fields"][0] == {"name": "price", "count": 3, "share": 0.75}


def test_where_nothing_was_counted_it_says_so(crawlfleet, api):
    assert api.findings.coverage == []

    done = crawlfleet("rule", "coverage", BIZ)

    assert (done.code, done.out) == (0, "")
    assert "nothing was counted" in done.err
