"""The samples are what they say: the command line reads them, the runtime's decoder takes them."""

import json
import os
import pydoc
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from cronsim import CronSim

from infra.local.extra_packages import link_extras
from infra.stages import STAGES
from tests.fakes.jobs import MemoryJobs
from tests.fakes.schedules import MemorySchedules
from tests.fakes.spiders import MemorySpiders
from tests.kit.cli import read_file, read_folder, render
from tests.kit.config import Rule, adopt, unchecked
from tests.kit.executors import Registry, SpiderExecutors, check_spider
from tests.kit.extract import RuleExtractor, check_rule
from tests.kit.kernel import ExtractError
from tests.kit.requests import Body, Link, Page
from tests.kit.schedules import Schedule
from tests.kit.spiders import SpiderPlan, SpiderService
from tests.kit.subscriptions import Content, problems_of

SAMPLES = Path(__file__).parents[2] / "samplesconfig"
FOLDERS = sorted(folder.name for folder in SAMPLES.iterdir() if folder.is_dir())
SPIDERS = sorted(SAMPLES.glob("*/spiders/*/*/*.yaml"))
SUBSCRIPTIONS = sorted(SAMPLES.glob("*/subscriptions/*/*/*.yaml"))
SCHEDULES = sorted(SAMPLES.glob("*/schedules/*/*/*.yaml"))


def check_reader(reader):
    """The word on a rule or a spider of those who read pages by it."""
    if isinstance(reader, Rule):
        return check_rule(reader)
    return check_spider(reader, registry=Registry(), check_rule=check_rule)


@pytest.fixture(autouse=True, scope="module")
def own_code(tmp_path_factory):
    """The package of the sample `own-code`, as the local cloud lets functions find it."""
    folder = tmp_path_factory.mktemp("own-code") / "extra"
    link_extras(["own-code/project/acme_crawl"], SAMPLES, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


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


@pytest.mark.parametrize("file", SUBSCRIPTIONS, ids=lambda file: file.stem)
def test_every_sample_subscription_is_one_that_its_biz_would_keep(file):
    tenant, biz = file.parts[-3:-1]
    tree = adopt("r", read_folder(file.parents[3]), None, {}, unchecked).tree
    content = msgspec.json.decode(read_file(file), type=Content)

    assert problems_of(tree, tenant, file.stem, msgspec.structs.asdict(content)) == []
    assert biz in tree.bizs[tenant]


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


def notices_of(body):
    """The records of a page by the sample's hand-written executor."""
    tree = adopt("r", read_folder(SAMPLES / "own-code"), None, {}, unchecked).tree
    press = tree.bizs["default"]["press"]
    executors = SpiderExecutors(Registry(), RuleExtractor())
    page = Page(url="https://town.example/notices", status=200, headers={}, body=body)
    about = Body(url=page.url, rule="notices", rule_version="v")
    return list(executors.read(press.spiders["notices"], page, about))


def test_a_hand_written_executor_reads_what_no_selector_names():
    found = notices_of((SAMPLES / "own-code/pages/notices.html").read_bytes())

    records = [one for one in found if isinstance(one, dict)]
    assert records == [
        {"title": "Road works & detours", "place": "Mill Street, map", "until": "30 April"},
        {"title": "Book sale", "place": "Library"},
        {"title": "Market moves to the square", "until": "further notice"},
    ]
    [link] = [one for one in found if isinstance(one, Link)]
    assert (link.url, link.rule) == ("https://town.example/maps/mill.html", "article")
    with pytest.raises(ExtractError, match="more than 500,000 bytes"):
        notices_of(b" " * 500_001)


def test_the_hand_written_executor_imports_its_parser_with_its_first_page():
    code = (
        "import sys; from acme_crawl.notices import Notices, NoticesParameters as P;"
        "Notices(P(labels={'What': 'title'}), None); print('bs4' in sys.modules)"
    )
    path = f"{SAMPLES / 'own-code/project'}:{':'.join(sys.path)}"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
    )

    assert done.stdout == "False\n"


def test_the_shop_has_bidding_on_with_a_pool_that_its_stage_deploys():
    stage = adopt("r", read_folder(SAMPLES / "shop"), None, {}, unchecked).tree.stage

    assert stage.bidding.wait_seconds == 30
    assert stage.pools.keys() == {pool.name for pool in STAGES["aws-large"].pools}


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
