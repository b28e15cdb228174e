"""Scrapy spiders inside workers: the sample project on a whole local cloud, and how it is named."""

import json
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
import yaml

from infra.fleet import FLEET
from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud
from infra.local.parts import LOOPBACK, PartError
from infra.local.server import Options, link_spiders, local_function
from tests.kit.cli import push_folder
from tests.kit.kernel import ConfigError, names
from tests.kit.sdk import Client
from tests.waiting import eventually

SAMPLES = Path(__file__).parents[2] / "samplesconfig"
SPIDERS = SAMPLES / "scrapy" / "project" / "spiders"
PAGES = SAMPLES / "executors" / "pages"
#: The same package under a name that only this operator's stage allows.
OWN = "garden_crawler"
BIZ = "garden"


class Shop(BaseHTTPRequestHandler):
    """The garden shop's list of three pages, a second time below ``/own``."""

    def do_GET(self):
        asked = urlsplit(self.path)
        number = parse_qs(asked.query).get("page", ["1"])[0]
        file = PAGES / f"list-{number}.html"
        if not asked.path.endswith("/tools") or not file.is_file():
            self.send_error(404)
            return
        body = file.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def shop():
    server = ThreadingHTTPServer((LOOPBACK, 0), Shop)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{LOOPBACK}:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def configuration(tmp_path_factory):
    """The sample's, for a shop on this machine, and a spider of a package of another name."""
    folder = tmp_path_factory.mktemp("config")
    shutil.copytree(SAMPLES / "scrapy", folder, dirs_exist_ok=True)
    stage, biz = folder / "stage.yaml", folder / "bizs" / "default" / f"{BIZ}.yaml"
    stage.write_text(stage.read_text().replace("addresses: false", "addresses: true"))
    document = yaml.safe_load(
        biz.read_text().replace("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"')
    )
    tools = document["spiders"]["tools"]
    # What `scrapy crawl tools -a` would say as well: the spider's attributes.
    tools["parameters"]["arguments"]["allowed_domains"] = [LOOPBACK]
    parameters = {**tools["parameters"], "spider": f"{OWN}.tools:ToolsSpider"}
    document["spiders"]["own"] = {**tools, "parameters": parameters, "key": []}
    biz.write_text(json.dumps(document))  # JSON is YAML without aliases
    return folder


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    own = tmp_path_factory.mktemp("project") / OWN
    shutil.copytree(SPIDERS, own, ignore=shutil.ignore_patterns("__pycache__"))
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REDIS_URL", raising=False)
        patch.delenv("MONGODB_URI", raising=False)
        state = tmp_path_factory.mktemp("state")
        places = (str(SPIDERS), str(own))
        with LocalCloud(state, ticking=False, seed=False, scrapy=places) as cloud:
            yield cloud


@pytest.fixture
def client(cloud):
    with Client(cloud.api_url, cloud.api_key) as client:
        yield client


def ssm(cloud):
    return boto3.client(
        "ssm",
        endpoint_url=cloud.aws_endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )


def test_the_sample_project_is_crawled_by_workers_to_its_last_page(
    cloud, client, shop, configuration, monkeypatch
):
    monkeypatch.setenv(names.ENV_SCRAPY_PACKAGES, f"spiders,{OWN}")
    push_folder(configuration, "local", ssm(cloud))

    starts = {"tools": f"{shop}/tools", "own": f"{shop}/own/tools"}
    for spider, start in starts.items():
        client.submit(BIZ, start, rule=spider)
    wanted = {
        f"{start}{page}": "done" for start in starts.values() for page in ("", "?page=2", "?page=3")
    }

    def asked():
        return {request.url: request.state for request in client.requests(BIZ)}

    # Seeds become requests after the page that gave them.
    eventually(lambda: asked() == wanted, what="all pages of both")

    records = list(client.records(BIZ))
    found = {
        spider: sorted(
            (record.fields["page"], record.fields["sku"])
            for record in records
            if record.rule == spider
        )
        for spider in starts
    }
    pages = [(1, "RK-2"), (1, "SP-1"), (2, "HS-4"), (2, "SH-3"), (3, "WB-5")]
    assert found == {"tools": pages, "own": pages}
    assert {record.fields["currency"] for record in records} == {"EUR"}


def test_a_package_that_nobody_has_named_is_refused_before_anything_is_pushed(
    cloud, configuration, tmp_path, monkeypatch
):
    monkeypatch.delenv(names.ENV_SCRAPY_PACKAGES, raising=False)
    folder = tmp_path / "config"
    shutil.copytree(configuration, folder)
    biz = folder / "bizs" / "default" / f"{BIZ}.yaml"
    biz.write_text(biz.read_text().replace(OWN, "somebody_elses"))

    with pytest.raises(
        ConfigError, match=f"spiders.own.parameters.spider: .*{names.ENV_SCRAPY_PACKAGES}"
    ):
        push_folder(folder, "local", ssm(cloud))


def test_only_the_named_packages_can_be_imported_not_what_lies_beside_them(tmp_path):
    link_spiders([str(SPIDERS)], tmp_path / "spiders")
    packages = link_spiders(["samplesconfig/scrapy/project/spiders"], tmp_path / "spiders")

    assert [(each.name, each.folder) for each in packages] == [("spiders", SPIDERS)]
    assert [path.name for path in (tmp_path / "spiders").iterdir()] == ["spiders"]


def test_a_package_that_is_no_longer_named_is_no_longer_there(tmp_path):
    link_spiders([str(SPIDERS)], tmp_path / "spiders")

    assert link_spiders([], tmp_path / "spiders") == ()
    assert list((tmp_path / "spiders").iterdir()) == []
    assert (SPIDERS / "tools.py").is_file()


def test_consumers_and_trials_are_reported_of_spiders_and_nobody_else(tmp_path):
    known = dict.fromkeys(
        [variable for spec in FLEET.functions for variable in spec.environment], "x"
    )
    places = {"aws": "a", "lambda": "l", "spiders": "/carried"}
    for spec in FLEET.functions:
        made = local_function(spec, Options(state=tmp_path), {**known, **places})

        reported = names.ENV_SCRAPY_PACKAGES in made.variables
        last = made.variables["PYTHONPATH"].endswith(":/carried")
        assert (reported, last) == ((spec.name in {names.CONSUMER, names.TRIALS},) * 2)


def test_without_spiders_a_consumer_is_reported_nothing(tmp_path):
    spec = FLEET.function(names.CONSUMER)
    known = dict.fromkeys(spec.environment, "x")
    places = {"aws": "a", "lambda": "l", "spiders": "", names.ENV_SCRAPY_PACKAGES: ""}

    variables = local_function(spec, Options(state=tmp_path), {**known, **places}).variables

    assert names.ENV_SCRAPY_PACKAGES not in variables
    assert "" not in variables["PYTHONPATH"].split(":")


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("samplesconfig/scrapy/project", "it has no __init__.py; in it there is spiders"),
        ("nowhere/at_all", "is no folder"),
    ],
)
def test_a_folder_that_is_no_package_is_refused_by_the_option(tmp_path, place, said):
    with pytest.raises(PartError, match=r"--scrapy\[0\]: .*" + said):
        link_spiders([place], tmp_path)


def test_without_scrapy_it_says_how_to_have_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "scrapy", None)

    with pytest.raises(PartError, match="make up SCRAPY="):
        link_spiders([str(SPIDERS)], tmp_path)
