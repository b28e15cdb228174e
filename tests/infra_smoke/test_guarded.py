"""The journey's steps about a guarded site: what they take for shown, and what they do not."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pymongo
import pytest
import requests
from msgspec.structs import replace

from infra.localstack import settings
from infra.localstack.guarded import (
    MARK,
    Guarded,
    drop_token,
    guarded_site,
    keep_token,
    logged,
    stored,
)
from infra.smoke.deployment import Deployment, log_group
from infra.steps import Step, StepError
from tests.infra_smoke.deployed import STAGE, client
from tests.kit.config import Biz
from tests.kit.kernel import decode, names
from tests.kit.sdk import (
    ConflictError,
    Explanation,
    Ledger,
    RequestStatus,
    Standing,
    Stats,
    Submitted,
    TimelineEvent,
    TransitionAnswer,
    sdk,
)

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@dataclass
class Cloud:
    """The API, as far as the steps see it: what is submitted is fetched at once."""

    site: object
    kept: dict[str, RequestStatus] = field(default_factory=dict)
    #: What goes wrong.
    without: bool = False
    shows: bool = False
    stays: bool = False
    holds: bool = False
    unbalanced: int = 0

    def submit(self, biz, urls, *, rule):
        for number, url in enumerate(urls):
            headers = {} if self.without else {settings.GUARDED_HEADER: self.site.token}
            requests.get(url, headers=headers, timeout=5)
            meta = {"seen": self.site.token} if self.shows else {}
            events = tuple(TimelineEvent(at=NOW, state=one) for one in ("pending", "done"))
            self.kept[str(number)] = RequestStatus(
                id=str(number), state="done", url=url, meta=meta, timeline=events
            )
        return [Submitted(index=n, url=url, id=str(n)) for n, url in enumerate(urls)]

    def get(self, biz, request_id):
        return self.kept[request_id]

    def stats(self, biz):
        return Stats(states={"done": len(self.kept)})

    def requests(self, biz, state=None):
        return [one for one in self.kept.values() if state in {None, one.state}]

    def records(self, biz):
        return []

    def dead_letters(self, biz):
        return []

    def explain(self, biz, request_id):
        found = self.kept[request_id]
        steps = tuple(sdk.Step(at=NOW, kind="request", state=e.state) for e in found.timeline)
        standing = Standing(sentence="It has ended.")
        return Explanation(id=request_id, state=found.state, standing=standing, steps=steps)

    def ledger(self, biz):
        others = len(self.requests(biz, settings.REVIEWED))
        return Ledger(
            submitted=len(self.kept),
            done=len(self.kept) - others,
            others=others,
            balanced=not self.unbalanced,
        )

    def transition(self, biz, request_id, *, from_state, to_state, why=""):
        found = self.kept[request_id]
        if found.state != from_state and not self.holds:
            raise ConflictError(f"request {request_id} is {found.state}, not {from_state}")
        if not self.stays:
            event = TimelineEvent(at=NOW, state=to_state, why=why)
            found = replace(found, state=to_state, timeline=(*found.timeline, event))
        self.kept[request_id] = found
        return found

    def transition_each(self, biz, ids, *, from_state, to_state):
        for one in ids:
            repeated = self.kept[one].state == to_state
            if not repeated:
                self.transition(biz, one, from_state=from_state, to_state=to_state)
            yield TransitionAnswer(id=one, state=to_state, repeated=repeated)


def tried(*, documents=(MARK,), lines=("started",), **wrong):
    step = Step("guarded", lambda _: None)
    with guarded_site("http://127.0.0.1:80/") as site:
        cloud = Cloud(site, **wrong)
        guarded = Guarded(
            Deployment("localstack", cloud, {}, {}),
            cloud,
            site,
            documents=lambda: (text.format(site.token).encode() for text in documents),
            lines=lambda: (text.format(site.token).encode() for text in lines),
        )
        guarded.crawled(step)
        guarded.reviewed(step)
    return step


def test_pages_with_the_token_that_nobody_else_sees_and_a_reviewed_one_are_what_it_takes():
    step = tried()

    assert step.seen[0].startswith("3 pages with the token")
    assert step.seen[1].endswith("request 0 is reviewed, not pending")


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"without": True}, "for 3 pages without it"),
        ({"shows": True}, "an answer of the API shows the token"),
        ({"documents": [MARK, "x {} y"]}, "MongoDB shows the token"),
        ({"documents": ["nothing of it"]}, "MongoDB was searched for the token"),
        ({"lines": ["header {}"]}, "a log shows the token"),
        ({"lines": []}, "a log was searched for the token"),
        ({"stays": True}, "of two pages that are reviewed is seen"),
        ({"unbalanced": 1}, "of two pages that are reviewed is seen"),
        ({"holds": True}, "was held as if it were pending"),
    ],
)
def test_what_goes_wrong_with_it_is_reported(wrong, reported):
    with pytest.raises(StepError) as caught:
        tried(**wrong)

    assert reported in str(caught.value)
    assert caught.value.do


def test_the_token_is_kept_where_the_biz_finds_it_and_goes_again(deployment):
    keep_token(deployment, "Bearer x")
    name = names.tenant_secret(STAGE, "default", settings.GUARDED_SECRET)
    manager = client("secretsmanager")
    assert manager.get_secret_value(SecretId=name)["SecretString"] == "Bearer x"

    drop_token(deployment)

    assert manager.list_secrets()["SecretList"] == []


def test_every_functions_log_is_searched(deployment):
    logs = client("logs")
    for function in names.FUNCTIONS:
        group = log_group(STAGE, function)
        logs.create_log_group(logGroupName=group)
        logs.create_log_stream(logGroupName=group, logStreamName="s")
        now = int(datetime.now(UTC).timestamp() * 1_000)
        logs.put_log_events(
            logGroupName=group,
            logStreamName="s",
            logEvents=[{"timestamp": now, "message": f"said by {function}"}],
        )

    assert set(logged(deployment)) == {f"said by {one}".encode() for one in names.FUNCTIONS}


def test_every_document_of_every_database_is_searched(mongo_uri, tenant):
    with pymongo.MongoClient(mongo_uri) as mongo:
        try:
            mongo[f"cf_{tenant}_a"]["requests"].insert_one({"data": f"of {tenant}".encode()})
            found = [one for one in stored(mongo_uri) if f"of {tenant}".encode() in one]
        finally:
            mongo.drop_database(f"cf_{tenant}_a")

    assert len(found) == 1


def test_the_biz_of_the_journey_is_right():
    [(path, text)] = settings.guarded().items()

    found, problems = decode(text, Biz)

    assert (path, problems) == ("bizs/default/guarded", ())
    assert found.fetch.headers[settings.GUARDED_HEADER].secret == settings.GUARDED_SECRET
    assert found.transitions["done"] == (settings.REVIEWED,)
