"""The samples are what they say: the command line reads them, the runtime's decoder takes them."""

import json
import pydoc
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from cronsim import CronSim

from tests.fakes.jobs import MemoryJobs
from tests.fakes.schedules import MemorySchedules
from tests.fakes.spiders import MemorySpiders
from tests.kit.cli import read_file, read_folder, render
from tests.kit.config import Rule, adopt, unchecked
from tests.kit.executors import check_spider
from tests.kit.extract import RuleExtractor, check_rule
from tests.kit.requests import Page
from tests.kit.schedules import Schedule
from tests.kit.spiders import SpiderPlan, SpiderService

SAMPLES = Path(__file__).parents[2] / "samplesconfig"
FOLDERS = sorted(folder.name for folder in SAMPLES.iterdir() if folder.is_dir())
SPIDERS = sorted(SAMPLES.glob("*/spiders/*/*/*.yaml"))
SCHEDULES = sorted(SAMPLES.glob("*/schedules/*/*/*.yaml"))


def check_reader(reader):
    """The word on a rule or a spider of those who read pages by it."""
    if isinstance(reader, Rule):
        return check_rule(reader)
    return check_spider(reader, check_rule=check_rule)


@pytest.mark.parametrize("name", FOLDERS)
def test_every_sample_is_valid_selectors_and_parameters_included(name):
    verdict = adopt("r", read_folder(SAMPLES / name), None, {}, check_reader)

    assert verdict.problems == ()
    assert verdict.tree.bizs


@pytest.mark.parametrize("name", FOLDERS)
def test_every_link_of_a_sample_spider_leads_to_a_reader_of_its_biz(name):
    tree = adopt("r", read_folder(SAMPLES / name), None, {}, unchecked).tree
    for bizs in tree.bizs.values():
        for biz in bizs.values():
            readers = biz.rules.keys() | biz.spiders.keys()
            for spider in biz.spiders.values():
                link = spider.parameters.get("link", {})
                named = {spider.parameters.get("rule"), link.get("rule")} - {None}
                assert named <= readers


def test_a_wrong_parameter_of_a_spider_refuses_its_biz_and_names_the_field():
    documents = read_folder(SAMPLES / "executors")
    path = "bizs/default/garden"
    documents[path] = documents[path].replace('"max_pages":50', '"max_page":50')

    verdict = adopt("r", documents, None, {}, check_reader)

    [problem] = verdict.problems
    assert problem.field == f"{path}: spiders.listing.parameters.max_page"
    assert "default" not in verdict.tree.bizs


@pytest.mark.parametrize("name", FOLDERS)
def test_every_sample_document_is_commented(name):
    for file in (SAMPLES / name).rglob("*.yaml"):
        assert file.read_text().count("#") >= 2, file


@pytest.mark.parametrize("file", SCHEDULES, ids=lambda file: file.stem)
def test_every_sample_schedule_fires_and_names_a_rule_of_its_biz(file):
    tenant, biz = file.parts[-3:-1]
    place = {"tenant": tenant, "biz": biz, "name": file.stem}
    schedule = msgspec.convert(msgspec.json.decode(read_file(file)) | place, Schedule)
    folder = file.parents[3]
    tree = adopt("r", read_folder(folder), None, {}, unchecked).tree

    now = datetime(2026, 1, 1, tzinfo=UTC).astimezone(ZoneInfo(schedule.time_zone))

    assert next(CronSim(schedule.cron, now)) > now
    assert schedule.rule in tree.bizs[tenant][biz].rules


@pytest.mark.parametrize("file", SPIDERS, ids=lambda file: file.stem)
def test_every_sample_spider_is_one_that_its_biz_would_keep(file):
    tenant, biz = file.parts[-3:-1]
    tree = adopt("r", read_folder(file.parents[3]), None, {}, unchecked).tree
    ports = SpiderService(spiders=MemorySpiders(), schedules=MemorySchedules(), jobs=MemoryJobs())
    plan = msgspec.convert(msgspec.json.decode(read_file(file)), SpiderPlan)
    now = datetime(2026, 1, 1, tzinfo=UTC)

    kept, new = ports.put(tree, tenant, biz, file.stem, plan, {"main"}, now)

    assert (kept.version, new) == (1, True)


def test_the_local_stage_says_outright_that_it_may_reach_this_machine():
    local = adopt("r", read_folder(SAMPLES / "local"), None, {}, unchecked).tree
    shop = adopt("r", read_folder(SAMPLES / "shop"), None, {}, unchecked).tree

    assert local.stage.allow_private_addresses
    assert not shop.stage.allow_private_addresses
    assert "docs" in local.bizs["default"]


def test_a_sample_pulled_from_a_stage_reads_the_same():
    for text in read_folder(SAMPLES / "shop").values():
        assert msgspec.json.decode(text) is not None
        assert render(text) != text


def test_the_rules_of_the_local_sample_read_what_pydoc_writes():
    tree = adopt("r", read_folder(SAMPLES / "local"), None, {}, unchecked).tree
    rules = tree.bizs["default"]["docs"].rules
    body = pydoc.html.page(pydoc.describe(json), pydoc.html.document(json)).encode()
    headers = {"content-type": "text/html; charset=utf-8"}
    page = Page(url="http://127.0.0.1:1/json.html", status=200, headers=headers, body=body)

    [record] = RuleExtractor().extract(rules["page"], page)
    [module] = RuleExtractor().extract(rules["module"], page)

    assert "package json" in record["title"]
    assert record["heading"].startswith("json")
    assert "Functions" in record["headings"]
    assert (
        record["summary"].replace("\N{NO-BREAK SPACE}", " ").startswith("JSON (JavaScript Object")
    )
    assert "\n" not in record["summary"]
    assert "http://127.0.0.1:1/json.decoder.html" in record["links"]
    assert (module["name"], module["version"]) == ("json", json.__version__)
    assert {"title": "Functions", "definitions": 4} in module["sections"]
