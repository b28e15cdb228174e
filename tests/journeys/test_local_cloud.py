"""The journeys of the documentation, each from its door to its end, on a whole local cloud.

Nothing ticks by itself here: a test fires the clocks, so that what it sees is what it caused.
"""

import json
import os
import re
import shutil
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pymongo
import pytest
import redis

from infra.local.parts import LOOPBACK
from infra.local.seeding import SAMPLES
from tests.kit.cli import push_folder
from tests.kit.kernel import names
from tests.kit.sdk import Client, InvalidRequestError
from tests.local_clouds import a_cloud, aws
from tests.waiting import eventually

BIZ = "docs"
#: Short enough to be waited for, and longer than a machine stands still: leases are lost by it.
LEASE_SECONDS = 12


class Site:
    """Pages that link to one another; ``/held`` does not answer before it is let go."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.held = threading.Event()
        self.let_go = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append(self.path)
                if self.path == "/robots.txt":
                    self.send_error(404)
                    return
                if self.path.startswith("/held") and not site.let_go.is_set():
                    site.held.set()
                    site.let_go.wait(60)
                body = f"<title>page {self.path}</title><a href='/next'>next</a>".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def handle(self):
                with suppress(ConnectionError):  # the worker that asked was killed
                    super().handle()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self):
        self.let_go.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cloud")
    with a_cloud(folder / "state", seed=False) as cloud:
        push(cloud, folder / "config")
        yield cloud


def push(cloud, folder):
    """Put the samples in force, with leases short enough for a test."""
    shutil.copytree(SAMPLES, folder)
    stage = folder / "stage.yaml"
    text, count = re.subn(
        r"lease_seconds: \d+", f"lease_seconds: {LEASE_SECONDS}", stage.read_text()
    )
    assert count == 1
    stage.write_text(text)
    push_folder(folder, "local", aws("ssm", cloud))


@pytest.fixture
def client(cloud):
    with Client(cloud.api_url, cloud.api_key) as client:
        yield client


def tick(cloud):
    fired = cloud.fire("scheduler-tick")
    assert not fired["failed"], fired["answer"]


def consumers(cloud):
    name = names.function_name("local", names.CONSUMER)
    return cloud.status()["functions"][name]


def test_a_submission_wakes_a_consumer_and_its_records_come_out(cloud, client, site):
    urls = [f"{site.url}/page-{number}" for number in range(30)]

    answers = client.submit(BIZ, urls, rule="page")
    ended = client.wait(BIZ, answers, timeout=60)

    records = [record for record in client.records(BIZ) if "/page-" in record.url]
    assert {status.state for status in ended} == {"done"}
    assert sorted(record.fields["title"] for record in records) == sorted(
        f"page /page-{number}" for number in range(30)
    )
    assert all(record.fields["links"] == [f"{site.url}/next"] for record in records)
    assert [event.state for event in ended[0].timeline] == ["pending", "leased", "done"]


def test_a_tick_creates_the_requests_of_a_due_schedule_once_per_fire_time(cloud, client, site):
    client.put_schedule(
        BIZ, "every-minute", cron="* * * * *", rule="page", urls=[f"{site.url}/scheduled"]
    )
    due = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=2)
    with pymongo.MongoClient(cloud.mongo_uri, tz_aware=True) as mongo:
        changed = [
            mongo[database].schedules.update_many({}, {"$set": {"next_at": due}}).modified_count
            for database in mongo.list_database_names()
            if "schedules" in mongo[database].list_collection_names()
        ]
        assert sum(changed) == 1

    tick(cloud)
    tick(cloud)
    client.delete_schedule(BIZ, "every-minute")
    client.wait(BIZ, timeout=60)

    made = [r for r in client.requests(BIZ) if r.url.endswith("/scheduled")]
    assert 3 <= len(made) <= 4  # a minute may begin between the two ticks
    assert {request.state for request in made} == {"done"}


def test_a_rule_is_tried_in_a_process_that_is_told_of_no_store(cloud, client, site):
    before = consumers(cloud)["invocations"]

    tried = client.try_rule(BIZ, "page", url=f"{site.url}/tried")

    assert tried.error is None
    assert [record["title"] for record in tried.records] == ["page /tried"]
    function = cloud.status()["functions"][names.function_name("local", names.TRIALS)]
    (pid,) = function["environments"]
    told = Path(f"/proc/{pid}/environ").read_bytes().decode()
    assert f"{names.ENV_STAGE}=local" in told
    stores = names.ENV_REDIS_URL, names.ENV_NODE_SECRET, str(urlsplit(cloud.mongo_uri).port)
    assert [each for each in stores if each in told] == []
    assert consumers(cloud)["invocations"] == before


def test_work_of_a_killed_worker_is_done_by_another_one(cloud, client, site):
    answer = client.submit(BIZ, f"{site.url}/held", rule="page")
    assert site.held.wait(60), "no worker asked for the page"

    for pid in consumers(cloud)["environments"]:
        os.kill(pid, signal.SIGKILL)
    site.let_go.set()

    def finished():
        tick(cloud)
        return client.get(BIZ, answer.id).final

    eventually(finished)
    status = client.get(BIZ, answer.id)
    assert status.state == "done"
    assert status.attempts == 2
    assert site.asked.count("/held") == 2
    assert len(list(client.records(BIZ, request_id=answer.id))) == 1


def test_what_redis_loses_is_queued_again_by_the_tick(cloud, client, site):
    eventually(lambda: consumers(cloud)["busy"] == 0)
    url = f"{site.url}/lost"
    with redis.Redis.from_url(cloud.redis_url) as store:
        answers = client.submit(BIZ, [f"{url}-{number}" for number in range(200)], rule="page")
        store.flushall()

    def finished():
        tick(cloud)
        return all(client.get(BIZ, answer.id).final for answer in answers[-3:])

    eventually(finished)
    assert {status.state for status in client.wait(BIZ, answers, timeout=60)} == {"done"}
    records = {r.url for r in client.records(BIZ) if r.url.startswith(url)}
    assert len(records) == 200


def test_a_monitor_tick_emits_what_alarms_and_scaling_need(cloud):
    fired = cloud.fire("monitor-tick")

    log = cloud.folder.log_dir / f"{names.function_name('local', names.MONITOR)}.log"
    metrics = set()
    for line in log.read_text().splitlines():
        if '"_aws"' in line:
            for group in json.loads(line)["_aws"]["CloudWatchMetrics"]:
                assert group["Namespace"] == names.METRIC_NAMESPACE
                metrics |= {metric["Name"] for metric in group["Metrics"]}
    assert not fired["failed"], fired
    assert {"Backlog", "OldestWaiting", "Consumers", "NodeUp"} <= metrics


def test_a_change_of_the_configuration_is_in_force_within_seconds(cloud, client, tmp_path):
    folder = tmp_path / "config"
    shutil.copytree(SAMPLES, folder)
    biz = folder / "bizs" / "default" / "docs.yaml"
    fresh = "\n  fresh:\n    description: only the title\n    fields:\n      title: {css: title}\n"
    biz.write_text(biz.read_text().rstrip() + "\n" + fresh)

    push_folder(folder, "local", aws("ssm", cloud))

    def accepted():
        try:
            client.submit(BIZ, f"http://{LOOPBACK}:9/nothing", rule="fresh")
        except InvalidRequestError:
            return False
        return True

    # It is looked for every five seconds; the rest of a minute is the machine's.
    eventually(accepted)
