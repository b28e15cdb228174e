"""Advice that is followed keeps its promise: the rule that was mended is the one that reads."""

import json
import re
import shlex

import pytest

from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.worlds.functions import biz, default_bizs


@pytest.mark.parametrize("told_by", ["explain", "dead show"])
def test_the_advised_replay_is_by_the_rule_that_was_mended(world, crawlfleet, told_by):
    with a_site() as site:
        needed = {"fields": {"title": {"css": "h6", "required": True}}}
        world.fresh({"acme": {"docs": biz({"page": needed})}, "rival": default_bizs()["rival"]})
        [dead] = submit(world, f"{site.url}/1")
        world.work()
        told = crawlfleet(*told_by.split(), "docs", dead)
        [command] = re.findall(r"crawlfleet (dead replay [^`\n]*)", f"{told.out}\n{told.err}")

        world.push({"acme": {"docs": biz()}, "rival": default_bizs()["rival"]})
        done = crawlfleet(*shlex.split(" ".join(command.split())))
        assert done.code == 0, done.err
        world.work()

    assert ask(world, "GET", f"/v1/docs/requests/{dead}").json["state"] == "done"


def test_a_job_that_died_of_its_rule_is_retried_as_advised_and_counts_its_fields(world, crawlfleet):
    with a_site() as site:
        needed = {"fields": {"title": {"css": "h6", "required": True}}}
        world.fresh({"acme": {"docs": biz({"page": needed})}, "rival": default_bizs()["rival"]})
        crawlfleet(
            "job", "start", "docs", "--rule", "page", "--url", f"{site.url}/1", "--name", "june"
        )
        world.work()
        shown = crawlfleet("job", "show", "docs", "june")
        commands = re.findall(r"crawlfleet (job retry [^\n]*)", shown.err)

        mended = {"fields": {"title": {"css": "title"}, "price": {"css": ".price"}}}
        world.push({"acme": {"docs": biz({"page": mended})}, "rival": default_bizs()["rival"]})
        assert crawlfleet(*shlex.split(commands[-1])).code == 0
        world.work()

    shown = crawlfleet("job", "show", "docs", "june", "--json")
    [line] = [line for line in shown.lines if '"_aws"' not in line]
    [read] = json.loads(line)["coverage"]
    assert (read["pages"], read["records"], read["empty"]) == (1, 1, ["price"])
    assert read["mostly_empty"]
    told = crawlfleet("job", "show", "docs", "june").err
    assert "of 1 record have a value: price 0" in told
