"""Tests of explanations, ledgers, fleet views, duplicates and limits on real servers."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.fleet import RedisWorkers, WorkerStatus
from tests.kit.kernel import QueueKey, names
from tests.kit.mongo import MongoJournal
from tests.kit.requests import JournalLine
from tests.kit.worlds.functions import biz, default_bizs


def retry_far_away(world) -> None:
    """A worker stays for what is due soon; then it waits for none of these."""
    later = {"base_seconds": 3000, "max_seconds": 3600}
    world.fresh({"acme": {"docs": biz(retry=later)}, "rival": default_bizs()["rival"]})


def explained(world, request_id: str, key: str = "acme"):
    answer = ask(world, "GET", f"/v1/docs/requests/{request_id}/explain", key=key)
    assert answer.status == 200, answer.text
    return answer.json


def queue_key_of(world, first: str) -> QueueKey:
    return QueueKey(world.tenants[first], "docs", "main")


# ---- explain -------------------------------------------------------------------------------------


def test_a_request_is_explained_from_submission_to_its_end(world):
    with a_site("/gone") as site:
        [gone, well] = submit(world, f"{site.url}/gone", f"{site.url}/well", job="nightly")
        pending = explained(world, well)
        world.work()
        done, dead = explained(world, well), explained(world, gone)

    first = pending["steps"][0]
    assert first["why"].endswith(f"by tenant {world.tenants['acme']}, job nightly")
    assert pending["state"] == "pending"
    assert pending["standing"]["facts"]["queued"] == 2
    assert "before it" in pending["standing"]["sentence"]
    assert [step["state"] for step in done["steps"]] == ["pending", "leased", "done"]
    assert "gave 1 record" in done["standing"]["sentence"]
    facts = dead["standing"]["facts"]
    assert (facts["reason"], facts["status"], facts["attempts"]) == ("PageGone", 404, 1)
    assert f"crawlfleet dead replay docs {gone}" in dead["standing"]["sentence"]


def test_a_waiting_and_a_cancelled_request_are_explained(world):
    retry_far_away(world)
    with a_site() as site:
        [waiting] = submit(world, f"{site.url}/busy")
        world.work()
    [cancelled] = submit(world, "https://example.org/")
    ask(world, "DELETE", f"/v1/docs/requests/{cancelled}")

    standing = explained(world, waiting)["standing"]
    assert (standing["facts"]["reason"], standing["facts"]["status"]) == ("Throttled", 503)
    assert "next" in standing["sentence"]
    reported = explained(world, cancelled)["standing"]["sentence"]
    assert f"cancelled by api:{world.tenants['acme']}" in reported


def test_a_leased_request_is_explained_with_its_worker(world):
    [one] = submit(world, "https://example.org/")
    parts = world.parts[-1]
    tree = parts.config.current()
    queue_key, document = queue_key_of(world, "acme"), tree.bizs[world.tenants["acme"]]["docs"]
    now = datetime.now(UTC)
    until = now + timedelta(seconds=60)
    entries = parts.queue.lease(queue_key, "w-1.n.1", 1, now, until)
    parts.store.claim(queue_key, document, entries, "w-1", now, until, "w-1.n.1")
    RedisWorkers(parts.redis).beat("w-1", now, WorkerStatus(held={f"{queue_key.tenant}/docs": 1}))

    found = explained(world, one)

    facts = found["standing"]["facts"]
    assert (found["state"], facts["worker"], facts["worker_health"]) == ("leased", "w-1", "alive")
    assert facts["lease_until"] == until.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_an_expired_request_is_explained(world):
    world.fresh(
        {
            "acme": {"docs": biz(ttl_seconds=60, expiry_grace_seconds=3600)},
            "rival": default_bizs()["rival"],
        }
    )
    [one] = submit(world, "https://example.org/")
    database = world.mongo[f"cf_{world.tenants['acme']}_db"]
    for name in database.list_collection_names():
        database[name].update_many(
            {"_id": int(one)}, {"$set": {"ts": datetime.now(UTC) - timedelta(seconds=90)}}
        )
    event = json.loads(SCHEDULED)
    world.call(names.SCHEDULER, event)

    found = explained(world, one)

    assert found["state"] == "expired"
    assert "1 min" in found["standing"]["sentence"]


def test_what_befell_the_queue_is_reported_and_of_no_other_tenant(world):
    [mine] = submit(world, "https://example.org/")
    theirs = ask(world, "POST", "/v1/docs/requests", {"url": "https://x.example/"}, key="rival")
    journal = MongoJournal(world.parts[-1].nodes)
    at = datetime.now(UTC)
    for first in ("acme", "rival"):
        line = JournalLine(at=at, by="scheduler", kind="filled", why=f"for {first}", count=7)
        journal.note(queue_key_of(world, first), line)

    mine_reported = explained(world, mine)
    theirs_reported = explained(world, theirs.json["id"], key="rival")

    lines = [step["why"] for step in mine_reported["steps"] if step["kind"] == "lane"]
    [line] = lines
    assert "for acme (7 " in line
    assert "for acme" not in json.dumps(theirs_reported)
    assert ask(world, "GET", f"/v1/docs/requests/{mine}/explain", key="rival").status == 404


SCHEDULED = json.dumps(
    {
        "version": "0",
        "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": "000000000000",
        "time": "2026-01-01T00:00:00Z",
        "region": "us-east-1",
        "resources": ["arn:aws:events:us-east-1:000000000000:rule/tick"],
        "detail": {},
    }
)


# ---- ledger, workers -----------------------------------------------------------------------------


def test_the_ledger_counts_every_state_and_each_tenants_own(world):
    retry_far_away(world)
    with a_site("/gone") as site:
        submit(world, f"{site.url}/1", f"{site.url}/gone", f"{site.url}/busy", job="nightly")
        world.work()
    [cancelled, _] = submit(world, "https://example.org/1", "https://example.org/2")
    ask(world, "DELETE", f"/v1/docs/requests/{cancelled}")

    whole = ask(world, "GET", "/v1/docs/ledger").json
    nightly = ask(world, "GET", "/v1/docs/ledger", query={"job": "nightly"}).json

    assert whole == {
        "job": None,
        "submitted": 5,
        "pending": 1,
        "leased": 0,
        "waiting": 1,
        "done": 1,
        "dead": 1,
        "cancelled": 1,
        "expired": 0,
        "others": 0,
        "difference": 0,
        "balanced": True,
    }
    assert (nightly["submitted"], nightly["waiting"], nightly["balanced"]) == (3, 1, True)
    assert ask(world, "GET", "/v1/docs/stats").json["submitted"] == 5
    assert ask(world, "GET", "/v1/docs/ledger", key="rival").json["submitted"] == 0
    none = ask(world, "GET", "/v1/docs/ledger", query={"job": "nightly"}, key="rival")
    assert none.status == 404


def test_a_request_that_was_lost_is_a_difference(world):
    with a_site() as site:
        submit(world, f"{site.url}/1")
        world.work()
    counts = world.mongo[f"cf_{world.tenants['acme']}_db"]["docs.requests_counts"]
    assert counts.update_one({"done": 1}, {"$inc": {"submitted": 1}}).modified_count == 1

    ledger = ask(world, "GET", "/v1/docs/ledger").json

    assert (ledger["submitted"], ledger["done"], ledger["difference"]) == (2, 1, 1)
    assert ledger["balanced"] is False


def test_workers_are_seen_by_all_and_what_they_hold_by_its_tenant_alone(world):
    ask(world, "GET", "/v1/docs/stats")
    workers = RedisWorkers(world.parts[-1].redis)
    held = {f"{world.tenants['acme']}/docs": 3, f"{world.tenants['rival']}/secret": 40}
    started = datetime(2026, 3, 1, tzinfo=UTC)
    worker_status = WorkerStatus(
        started_ms=int(started.timestamp() * 1000), held=held, done=12, version="0.9.1"
    )
    workers.beat("w-1", datetime.now(UTC), worker_status)

    mine = ask(world, "GET", "/v1/docs/workers").json["workers"]
    theirs = ask(world, "GET", "/v1/docs/workers", key="rival").json["workers"]
    secret = ask(world, "GET", "/v1/secret/workers", key="rival").json["workers"]

    assert [(one["worker"], one["health"], one["held"]) for one in mine] == [("w-1", "alive", 3)]
    assert mine[0]["since"] == "2026-03-01T00:00:00.000Z"
    assert (mine[0]["version"], theirs[0]["version"]) == ("0.9.1", "0.9.1")
    assert ([one["held"] for one in theirs], [one["held"] for one in secret]) == ([0], [40])
    assert "40" not in json.dumps([one["held"] for one in mine])


# ---- repeated, too many --------------------------------------------------------------------------

PAGE = {"url": "https://example.org/page"}
KEY = {"Idempotency-Key": "load-7"}


def test_a_submission_under_one_key_is_stored_once(world):
    first = ask(world, "POST", "/v1/docs/requests", PAGE, headers=KEY)
    second = ask(world, "POST", "/v1/docs/requests", PAGE, headers={"idempotency-key": "load-7"})

    assert (first.status, second.status) == (202, 202)
    assert (second.json["id"], second.json["repeated"]) == (first.json["id"], True)
    assert second.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert world.stored() == 1


def test_a_key_is_for_one_submission_of_one_tenant(world):
    ask(world, "POST", "/v1/docs/requests", PAGE, headers=KEY)

    other = ask(world, "POST", "/v1/docs/requests", {"url": "https://x.example/"}, headers=KEY)
    rival = ask(
        world, "POST", "/v1/docs/requests", {"url": "https://x.example/"}, headers=KEY, key="rival"
    )

    assert (other.status, other.json["type"]) == (422, "urn:crawlfleet:problem:key-reused")
    assert (rival.status, "repeated" in rival.json) == (202, False)
    assert (world.stored(), world.stored("rival")) == (1, 1)


def test_an_entry_under_one_client_id_is_stored_once_in_whatever_call(world):
    mine, other = {**PAGE, "client_id": "p-1"}, {**PAGE, "client_id": "p-2"}
    first = ask(world, "POST", "/v1/docs/requests", mine).json

    batch = ask(world, "POST", "/v1/docs/requests", {"requests": [mine, other]})

    [again, new] = batch.json["requests"]
    assert (again["id"], again["repeated"]) == (first["id"], True)
    assert "repeated" not in new
    assert "Idempotent-Replayed" not in batch.headers
    assert world.stored() == 2


def test_a_full_biz_says_when_to_come_back_and_takes_more_then(world):
    world.fresh(
        {"acme": {"docs": biz(intake={"max_backlog": 3})}, "rival": default_bizs()["rival"]}
    )
    with a_site() as site:
        ids = submit(world, *(f"{site.url}/{number}" for number in range(3)))

        full = ask(world, "POST", "/v1/docs/requests", {"url": f"{site.url}/4"})
        seeds = ask(world, "POST", "/v1/docs/seeds", {"seeds": [{"url": f"{site.url}/4"}]})
        repeated = ask(world, "GET", f"/v1/docs/requests/{ids[0]}")
        world.work()
        after = ask(world, "POST", "/v1/docs/requests", {"url": f"{site.url}/4"})

    assert (full.status, full.json["type"]) == (429, "urn:crawlfleet:problem:backlog-full")
    assert int(full.headers["Retry-After"]) >= 1
    assert (seeds.status, seeds.json["type"]) == (429, full.json["type"])
    assert int(seeds.headers["Retry-After"]) >= 1
    assert (repeated.status, after.status) == (200, 202)
    assert world.stored() == 4


@pytest.mark.parametrize("key", ["", "two words", "k" * 256])
def test_a_wrong_key_stores_nothing(world, key):
    answer = ask(world, "POST", "/v1/docs/requests", PAGE, headers={"Idempotency-Key": key})

    assert (answer.status, answer.fields) == (400, ["Idempotency-Key"])
    assert world.stored() == 0
