"""A biz whose pages are behind a token: the token is in a secret, and nowhere else (D13)."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.worlds.functions import STAGE, biz

pytestmark = pytest.mark.measured

OLD, NEW = "Bearer old-t0ken-of-acme", "Bearer new-t0ken-of-acme"


class Door(BaseHTTPRequestHandler):
    """Lets in whoever has the token, and tells everybody what they have sent."""

    protocol_version = "HTTP/1.1"
    token = OLD

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization", "")
        self.send_response(200 if sent == Door.token else 403)
        body = f"<title>You sent {sent}</title>".encode()
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    Door.token = OLD
    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def stored(world) -> str:
    """Everything that MongoDB and Redis hold of these tenants and of all, as text."""
    mongo, tenant = world.mongo, world.tenants["acme"]
    there = [one for one in mongo.list_database_names() if one.startswith(f"cf_{tenant}_")]
    found = [
        str(document)
        for database in (world.control, *(mongo[name] for name in there))
        for collection in database.list_collection_names()
        for document in database[collection].find()
    ]
    assert len(found) > 3
    return "".join(found) + "".join(str(world.redis.dump(key)) for key in world.redis_keys())


def get(world, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(world, "GET", f"/v1/docs/requests/{request_id}").json
    return found


def test_a_rule_is_tried_with_the_secret_of_its_biz(world, site):
    secret = names.tenant_secret(STAGE, world.tenants["acme"], "tried")
    world.secrets.create_secret(Name=secret, SecretString=OLD)
    world.push({"acme": {"docs": biz(fetch={"headers": {"Authorization": {"secret": "tried"}}})}})

    trial = {"rule": "page", "url": f"{site}/a"}
    found = ask(world, "POST", "/v1/docs/rules/try", trial).json

    assert [one["title"] for one in found["records"]] == ["You sent ***"]


def test_a_secret_is_sent_to_the_site_and_is_in_no_store_no_answer_and_no_log(
    world, site, capfd, caplog
):
    tenant = world.tenants["acme"]
    secret = names.tenant_secret(STAGE, tenant, "shop")
    fetch = {"headers": {"Authorization": {"secret": "shop"}}}
    world.push({"acme": {"docs": biz(fetch=fetch, retry={"max_attempts": 1})}})

    [early] = submit(world, f"{site}/early")
    world.work()
    waits = get(world, early)
    assert (waits["state"], waits["attempts"]) == ("pending", 0)
    why = f"'shop' of tenant '{tenant}' cannot be read: there is no such secret"
    assert why in json.dumps(waits)

    world.secrets.create_secret(Name=secret, SecretString=OLD)
    [served] = submit(world, f"{site}/served")
    world.work()
    assert get(world, served)["state"] == "done"

    # Another token is in force while the secret is not changed yet: its answer is a dead letter.
    Door.token = NEW
    [refused] = submit(world, f"{site}/refused")
    world.work()
    assert get(world, refused)["state"] == "dead"
    letter = ask(world, "GET", f"/v1/docs/dead-letters/{refused}").json
    assert letter["sample"]["content"] == "<title>You sent ***</title>"

    world.secrets.put_secret_value(SecretId=secret, SecretString=NEW)
    [again] = submit(world, f"{site}/again")
    world.work()
    assert get(world, again)["state"] == "done"

    records = ask(world, "GET", "/v1/docs/records").json["records"]
    titles = {r["fields"]["title"] for r in records if r["request_id"] in {served, again}}
    assert titles == {"You sent ***"}
    out, err = capfd.readouterr()
    seen = f"{out}{err}{caplog.text}{stored(world)}"
    assert re.findall(r"t0ken-of-acme", seen) == []


def test_a_secret_among_the_parameters_of_a_spider_is_in_no_store_no_answer_and_no_log(
    world, site, capfd, caplog
):
    secret = names.tenant_secret(STAGE, world.tenants["acme"], "column")
    world.secrets.create_secret(Name=secret, SecretString="t0ken-of-acme")
    column = {"secret": "column"}
    spiders = {
        "blank": {"header": False, "columns": {"a": {"index": 5, "default": column}}},
        "absent": {"columns": {"a": {"header": column}}},
    }
    Door.token = ""
    rows = {name: {"executor": "csv", "parameters": one} for name, one in spiders.items()}
    world.push({"acme": {"docs": biz(spiders=rows, retry={"max_attempts": 1})}})
    ids = []

    for name in spiders:
        ids += submit(world, f"{site}/{name}", rule=name)
        world.work()

    assert [get(world, one)["state"] for one in ids] == ["done", "dead"]
    records = ask(world, "GET", "/v1/docs/records").json["records"]
    assert [one["fields"] for one in records] == [{"a": "***"}]
    letter = ask(world, "GET", f"/v1/docs/dead-letters/{ids[1]}")
    assert "there is no column '***'" in letter.text
    answers = [ask(world, "GET", f"/v1/docs/explain?request={one}").text for one in ids]
    out, err = capfd.readouterr()
    seen = f"{out}{err}{caplog.text}{stored(world)}{letter.text}{answers}{records}"
    assert re.findall(r"t0ken-of-acme", seen) == []
