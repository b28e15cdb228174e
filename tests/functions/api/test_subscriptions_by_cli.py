"""`crawlfleet subscription` on the real router: put, list, show, end, try on saved items."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.functions.http import ask
from tests.kit.worlds.functions import World, default_bizs

BIZ = "docs"
FEED = "https://news.example/feed.xml"
FILTER = 'climate ("green deal" OR #cop31) -sport'
PUT = ("subscription", "put", BIZ, "climate", "--filter", FILTER, "--feed", FEED)
ITEMS = [
    {"id": "1", "text": "Climate talks: all eyes on #COP31", "source": "left unread"},
    {"id": "2", "text": "The green deal"},
    {"id": "3", "text": "climate: the green deal of sport"},
]
Program = Callable[..., Any]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "items.jsonl"
    path.write_text("\n\n".join(map(json.dumps, ITEMS)) + "\n")
    return path


def test_a_subscription_is_put_listed_shown_and_ended(crawlfleet: Program) -> None:
    put = crawlfleet(*PUT, "--user", "desk-7")
    listed = crawlfleet("subscription", "list", BIZ)
    shown = crawlfleet("subscription", "show", BIZ, "climate")
    as_json = crawlfleet("subscription", "show", BIZ, "climate", "--json").json()
    ended = crawlfleet("subscription", "end", BIZ, "climate", "--revision", as_json["revision"])

    assert (put.code, listed.code, shown.code) == (0, 0, 0), put.err
    assert "climate" in listed.out
    assert FEED in shown.out
    assert "desk-7" in shown.out
    assert as_json["filter"] == FILTER
    assert (ended.code, ended.out.strip()) == (0, "climate ended")
    assert "there are none" in crawlfleet("subscription", "list", BIZ).err


def test_a_subscription_is_put_by_a_file(crawlfleet: Program, tmp_path: Path) -> None:
    file = tmp_path / "climate.yaml"
    file.write_text(
        f"kind: rss\nfilter: climate\nfeeds: [{FEED}]\n"
        "active: {time_zone: Europe/Berlin, hours: [{days: [mon], begins: '08:00'}]}\n"
    )

    put = crawlfleet("subscription", "put", BIZ, "climate", "--file", str(file), "--json")
    shown = crawlfleet("subscription", "show", BIZ, "climate")

    assert put.json()["active"]["time_zone"] == "Europe/Berlin"
    assert "mon 08:00-24:00 Europe/Berlin" in shown.out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "--filter"),
        (("--filter", "a"), "--feed, or --channel with its --kind"),
        (("--filter", "a", "--channel", "posts"), "--feed, or --channel with its --kind"),
        (("--filter", "a", "--feed", FEED, "--deliver", "here"), "sqs=ARN"),
        (("--filter", "a", "--file", "{file}"), "leave the other options out"),
        (("--filter", "a OR", "--feed", FEED), "filter: column"),
        (("--filter", "a", "--feed", FEED, "--deliver", "redis_stream=b"), "deliver.redis_stream"),
        (("--filter", "a", "--channel", "posts", "--kind", "x_stream"), "no channel 'posts'"),
    ],
)
def test_what_is_wrong_is_said_with_its_option_or_field(
    crawlfleet: Program, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file.yaml").write_text("filter: a\n")
    given = [one.format(file=tmp_path / "file.yaml") for one in options]

    done = crawlfleet("subscription", "put", BIZ, "climate", *given)

    assert done.code == 2
    assert said in done.err


def test_hints_of_errors_can_be_carried_out(world: World, crawlfleet: Program) -> None:
    world.push(default_bizs(), tenants={"acme": {"ceilings": {"subscriptions": 1}}})
    crawlfleet(*PUT)
    failed = [
        crawlfleet("subscription", "show", BIZ, "gone"),
        crawlfleet(*PUT[:4], "--filter", "a", "--feed", FEED, "--revision", "old"),
        crawlfleet("subscription", "put", BIZ, "other", "--filter", "a", "--feed", FEED),
    ]

    assert [done.code for done in failed] == [4, 1, 1]
    commands = [part for done in failed for part in done.err.split("`crawlfleet ")[1:]]
    assert len(commands) == 4
    for command in commands:
        advised = crawlfleet(*shlex.split(command.partition("`")[0]))
        assert advised.code in {0, 4}, (command, advised.err)


def test_a_filter_is_tried_on_saved_items(crawlfleet: Program, saved: Path) -> None:
    crawlfleet(*PUT)

    shown = crawlfleet("subscription", "try", BIZ, "--filter", FILTER, "--items", str(saved))
    lines = crawlfleet("subscription", "try", BIZ, "climate", "--items", str(saved), "--json")

    assert (shown.code, lines.code) == (0, 0), shown.err
    assert "takes 1 of 3 items" in shown.err
    assert [json.loads(line) for line in lines.out.splitlines()] == [
        {
            "line": 1,
            "id": "1",
            "taken": True,
            "found": ["#cop31", "climate"],
            "missing": [],
            "excluded_by": [],
        },
        {
            "line": 3,
            "id": "2",
            "taken": False,
            "found": ['"green deal"'],
            "missing": ["climate"],
            "excluded_by": [],
        },
        {
            "line": 5,
            "id": "3",
            "taken": False,
            "found": ['"green deal"', "climate"],
            "missing": [],
            "excluded_by": ["-sport"],
        },
    ]


def test_a_file_of_more_items_than_one_call_takes_is_tried_whole(
    crawlfleet: Program, tmp_path: Path
) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"id": str(n), "text": "a b"}) + "\n" for n in range(1_001)))

    done = crawlfleet("subscription", "try", BIZ, "--filter", "a", "--items", str(path), "--json")

    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [*map(str, range(1_001))]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "there is no item in it"),
        ('{"text": "a"}\n{', "line 2"),
        ('{"text": "a"}\n[]', "line 2: expected an object"),
        ('\n{"text": "a"}\n\n{"id": "7"}', "line 4: text: is missing"),
    ],
)
def test_what_is_wrong_with_an_item_is_named_by_its_line(
    crawlfleet: Program, tmp_path: Path, content: str, said: str
) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text(content)

    done = crawlfleet("subscription", "try", BIZ, "--filter", "a", "--items", str(path))

    assert done.code == 2
    assert said in done.err


def test_a_trial_needs_a_filter_or_a_subscription(
    world: World, crawlfleet: Program, saved: Path
) -> None:
    neither = crawlfleet("subscription", "try", BIZ, "--items", str(saved))
    both = crawlfleet("subscription", "try", BIZ, "a", "--filter", "a", "--items", str(saved))

    assert (neither.code, both.code) == (2, 2)
    assert ask(world, "GET", f"/v1/{BIZ}/subscriptions").json["subscriptions"] == []
