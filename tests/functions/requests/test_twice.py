"""Any event may come twice, one after the other or at once: without a second effect (SPEC.md D13).

Lambda gives an environment one event at a time, so two at once are two environments.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Lock, Thread
from typing import Any

import pytest

from tests.functions.http import Answer, ask, event
from tests.kit.kernel import names
from tests.kit.requests import Submission
from tests.kit.worlds.functions import Context, World

EVENTS = Path(__file__).parents[3] / "events"


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make all calls at the same moment and return their answers."""
    start, answers = Barrier(len(calls)), dict[int, Any]()

    def run(number: int) -> None:
        start.wait(60)
        answers[number] = calls[number]()

    threads = [Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [answers[number] for number in range(len(calls))]


def ids_of(answer: Answer) -> list[str]:
    assert answer.status == 202, answer.text
    return [entry["id"] for entry in answer.json["requests"]]


def urls(world: World) -> list[str]:
    listed = ask(world, "GET", "/v1/docs/requests", query={"limit": "1000"}).json["requests"]
    return sorted(request["url"] for request in listed)


# ---- the router ----------------------------------------------------------------------------------


def batch(number: int, **fields: Any) -> dict[str, Any]:
    entries = [{"url": f"https://example.org/{n}", **fields} for n in range(number)]
    return {"requests": entries}


def post(body: dict[str, Any], key: str | None = None) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    return event("POST", "/v1/docs/requests", body, headers=headers)


def test_a_submission_that_comes_twice_under_its_key_is_stored_once(world):
    first, again = (Answer(world.call(names.ROUTER, post(batch(7), "k"))) for _ in range(2))

    assert ids_of(again) == ids_of(first)
    assert first.headers.get("Idempotent-Replayed") is None
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (world.stored(), world.queued()) == (7, 7)


@pytest.mark.parametrize("number", [1, 40, 400])
def test_one_submission_at_four_routers_at_once_is_stored_once(world, number):
    asked = post(batch(number), "k")
    calls = [
        lambda one=one: Answer(one.answer(json.loads(json.dumps(asked)), Context()))
        for one in world.environments(names.ROUTER, 4)
    ]

    answers = at_once(*calls)

    first = ids_of(answers[0])
    assert len(set(first)) == number
    assert all(ids_of(answer) == first for answer in answers)
    assert world.stored() == number
    assert len(urls(world)) == number


def test_entries_with_client_ids_that_meet_in_several_calls_are_stored_once(world):
    """Below the edge: the framework keeps the event of a call for the whole process."""
    sent = [
        [Submission(url=f"https://example.org/{n}", client_id=f"order/{n}") for n in which]
        for which in (range(30), range(29, -1, -1), range(10, 40))
    ]
    contexts = [world.context() for _ in sent]
    calls = [
        partial(
            context.submission.submit,
            context.config.current(),
            world.tenants["acme"],
            "docs",
            entries,
            context.now(),
        )
        for context, entries in zip(contexts, sent, strict=True)
    ]

    answers = at_once(*calls)

    given = [
        (one.client_id, receipt.id, receipt.repeated)
        for entries, receipts in zip(sent, answers, strict=True)
        for one, receipt in zip(entries, receipts, strict=True)
    ]
    assert len({(key, an_id) for key, an_id, _ in given}) == 40
    assert len({an_id for _, an_id, _ in given}) == 40
    assert sum(not repeated for _, _, repeated in given) == 40
    assert world.stored() == 40


def test_a_key_that_comes_with_something_else_is_refused_and_nothing_of_it_stored(world):
    ids_of(Answer(world.call(names.ROUTER, post(batch(2), "k"))))

    other = Answer(world.call(names.ROUTER, post(batch(3), "k")))

    assert other.status == 422
    assert "'k'" in other.json["detail"]
    assert world.stored() == 2


# ---- the consumer --------------------------------------------------------------------------------


class Site(ThreadingHTTPServer):
    """Pages that are their titles, and how often each was asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        self.served: Counter[str] = Counter()
        self.lock = Lock()
        super().__init__(("127.0.0.1", 0), _Page)


class _Page(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            self.send_error(404)
            return
        with self.server.lock:
            self.server.served[self.path] += 1
        body = f"<title>{self.path}</title>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_one_wake_up_at_two_consumers_at_once_downloads_and_stores_each_page_once(world, site):
    """Under one invocation id even, as Lambda repeats an event."""
    pages = [f"http://127.0.0.1:{site.server_port}/{n}" for n in range(60)]
    ask(world, "POST", "/v1/docs/requests", {"requests": [{"url": page} for page in pages]})
    calls = [
        lambda one=one: one.work("the-same-invocation", lambda: 60.0)
        for one in world.environments(names.CONSUMER)
    ]

    reports = at_once(*calls)

    assert set(site.served.values()) == {1}
    assert sum(report["done"] for report in reports) == len(site.served) == 60
    records = ask(world, "GET", "/v1/docs/records", query={"limit": "1000"}).json["records"]
    assert sorted(record["fields"]["title"] for record in records) == sorted(site.served)
    stats = ask(world, "GET", "/v1/docs/stats").json
    assert stats["states"]["done"] == 60
    assert stats["queue"]["queued"] == stats["queue"]["leased"] == 0


def test_a_wake_up_that_comes_after_the_work_is_done_does_nothing(world, site):
    page = f"http://127.0.0.1:{site.server_port}/a"
    ask(world, "POST", "/v1/docs/requests", {"url": page})
    context = Context()
    first = world.call(names.CONSUMER, {}, context)

    again = world.call(names.CONSUMER, {}, context)

    assert (first["done"], again["done"], again["leased"]) == (1, 0, 0)
    assert site.served == {"/a": 1}


# ---- the scheduler -------------------------------------------------------------------------------


def test_one_tick_at_two_schedulers_at_once_fires_once_and_starts_no_more_than_are_wanted(
    world,
):
    page = {
        "cron": "* * * * *",
        "rule": "page",
        "urls": ["https://a.example/", "https://b.example/"],
    }
    put = ask(world, "PUT", "/v1/docs/schedules/minutely", page)
    assert put.status == 200
    soon = datetime.fromisoformat(put.json["next_at"]) + timedelta(seconds=1)
    world.clocks[names.SCHEDULER] = lambda: soon
    calls = [
        lambda one=one: one.tick("the-same-tick", lambda: 120.0)
        for one in world.environments(names.SCHEDULER)
    ]

    done = at_once(*calls)

    assert urls(world) == sorted(page["urls"])
    assert max(each["fires"] for each in done) == 1
    again = world.application(names.SCHEDULER).tick("the-same-tick", lambda: 120.0)
    assert again["fires"] == 0
    assert urls(world) == sorted(page["urls"])
    assert world.lambdas.woken == [names.CONSUMER]


def test_an_event_of_a_rule_at_three_schedulers_at_once_starts_one_job(world):
    pages = {"pattern": "https://a.example/{zone}/{page}", "values": {"page": {"last": 4}}}
    plan = {"rule": "page", "start": pages}
    assert ask(world, "PUT", "/v1/docs/spiders/shop", plan).status == 201
    of_a_rule = {
        "crawlfleet": "start",
        "tenant": world.tenants["acme"],
        "biz": "docs",
        "spider": "shop",
        "values": {"zone": "north"},
        "id": "53dc4d37",
    }
    calls = [
        lambda one=one, n=n: one.answer(of_a_rule, f"scheduler-{n}", lambda: 120.0)
        for n, one in enumerate(world.environments(names.SCHEDULER, 3))
    ]

    [first, *others] = at_once(*calls)

    assert others == [first, first]
    assert first["tasks"] == 4
    [job] = ask(world, "GET", "/v1/docs/jobs").json["jobs"]
    assert job["name"] == first["job"]
    world.application(names.SCHEDULER).tick("a-tick", lambda: 120.0)
    assert urls(world) == [f"https://a.example/north/{n}" for n in range(1, 5)]


def test_two_ticks_at_once_recover_what_is_not_queued_without_its_being_worked_twice(world, site):
    pages = [f"http://127.0.0.1:{site.server_port}/{n}" for n in range(20)]
    ask(world, "POST", "/v1/docs/requests", {"requests": [{"url": page} for page in pages]})
    world.redis.flushall()
    calls = [
        lambda one=one: one.tick(f"tick-{id(one)}", lambda: 120.0)
        for one in world.environments(names.SCHEDULER)
    ]

    at_once(*calls)
    report = world.work()

    assert report["done"] == 20
    assert set(site.served.values()) == {1}


# ---- the monitor ---------------------------------------------------------------------------------


def test_two_evaluations_at_once_change_nothing_and_see_the_same(world, capsys):
    ask(world, "POST", "/v1/docs/requests", batch(5))
    before = (world.stored(), world.queued(), sorted(world.redis_keys()))
    capsys.readouterr()

    answers = at_once(*(one.look for one in world.environments(names.MONITOR)))

    assert answers == [{"unwell": {}, "unread": []}] * 2
    assert (world.stored(), world.queued(), sorted(world.redis_keys())) == before
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    of_docs = [line for line in lines if line.get("biz") == "docs"]
    backlogs = [line["Backlog"] for line in of_docs if "Backlog" in line]
    assert len(backlogs) == 2  # two looks; the other tenant has no work
    assert world.lambdas.woken == [names.CONSUMER]  # the submission's own


# ---- the id-issuer -------------------------------------------------------------------------------


QUESTIONS = {
    path.stem: json.loads(path.read_text())["event"]
    for path in sorted((EVENTS / "id-issuer").glob("*.json"))
    if not path.stem.startswith(("bad-", "health"))
}


def issued(answer: dict[str, Any]) -> list[int | str]:
    runs: list[int | str] = [
        first + offset for first, size in answer["runs"] for offset in range(size)
    ]
    return runs or list(answer["ids"])


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_one_question_at_four_issuers_at_once_and_again_gives_no_id_twice(world, question):
    """The second effect here would be an id that two requests share."""
    issuers = world.environments(names.ID_ISSUER, 4)

    answers = at_once(*(lambda one=one: one.issue(question) for one in issuers))
    answers += [issuers[0].issue(question)]

    ids = [an_id for answer in answers for an_id in issued(answer)]
    assert len(ids) == 5 * question["count"]
    assert len(set(ids)) == len(ids)
