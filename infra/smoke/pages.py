"""Pages, put in at the API and followed until each is a record."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from crawlfleet.kernel import names
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.sdk import Client
from infra.smoke.deployment import Deployment, log_group
from infra.steps import Step, StepError, wait_for


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchContext:
    """Pages to fetch.

    Attributes:
        biz: Whose they are.
        rule: How they are read; None leaves it to the biz.
        urls: Their addresses.
    """

    biz: str
    urls: Sequence[str]
    rule: str | None = None


#: Requests of which everything is asked: each costs a call or two.
_TRACKED: Final = 10


def submit(deployment: Deployment, client: Client, fetch_context: FetchContext) -> list[str]:
    """Put all of them in; their ids.

    Raises:
        StepError: one was refused.
    """
    try:
        answers = client.submit(
            fetch_context.biz, list(fetch_context.urls), rule=fetch_context.rule
        )
    except CrawlfleetError as error:
        raise StepError(
            f"the submission was refused: {error}",
            f"`crawlfleet config pull FOLDER --stage {deployment.stage}` shows whether there is a"
            f" biz {fetch_context.biz} with the rule {fetch_context.rule or 'of its default'}.",
            log_group(deployment.stage, names.ROUTER),
        ) from error
    for answer in answers:
        if answer.id is None:
            raise StepError(f"{answer.url} was refused: {answer.error}", "See the error's fields.")
    return [answer.id for answer in answers if answer.id is not None]


def wait_done(
    deployment: Deployment,
    client: Client,
    fetch_context: FetchContext,
    ids: Sequence[str],
    seconds: float,
    step: Step,
) -> None:
    """Wait until nothing of the biz is unfinished, and all of these are done.

    Raises:
        StepError: they are not, in that time.
    """

    def over() -> bool:
        stats = client.stats(fetch_context.biz)
        step.now(f"{stats.states.get('done', 0)} done, {stats.unfinished} open")
        return stats.unfinished == 0

    wait_for(
        over,
        seconds,
        f"{len(ids)} requests of {fetch_context.biz} are worked off",
        f"`crawlfleet explain {fetch_context.biz} {ids[-1]}` says what the last one waits for.",
        log_group=log_group(deployment.stage, names.CONSUMER),
    )
    wanted, dead = set(ids), []
    for status in client.requests(fetch_context.biz):
        if status.id in wanted:
            wanted.discard(status.id)
            if status.state != "done":
                dead.append(f"{status.id} is {status.state}: {status.error}")
    if wanted:
        raise StepError(
            f"{len(wanted)} of {len(ids)} requests are not there, such as {min(wanted)}",
            f"`crawlfleet ledger {fetch_context.biz}` tells whether anything is lost.",
            log_group(deployment.stage, names.ROUTER),
        )
    if dead:
        raise StepError(
            f"{len(dead)} of {len(ids)} requests are not done: {'; '.join(dead[:3])}",
            f"`crawlfleet dead list {fetch_context.biz}` says why each was given up on.",
            log_group(deployment.stage, names.CONSUMER),
        )


def records(client: Client, fetch_context: FetchContext, ids: Sequence[str]) -> str:
    """Check that each request has its record exactly once.

    Raises:
        StepError: one has none, or two.
    """
    wanted, seen, twice = set(ids), set[str](), set[str]()
    for record in client.records(fetch_context.biz):
        if record.id in seen:
            twice.add(record.id)
        seen.add(record.id)
        if record.fields:
            wanted.discard(record.request_id)
    if wanted or twice:
        raise StepError(
            f"{len(wanted)} requests have no record with anything in it, {len(twice)} records came"
            " twice",
            f"`crawlfleet requests {fetch_context.biz}` shows them; try the rule on such a page:"
            " `crawlfleet rule try`.",
        )
    return f"{len(seen)} records"


def tracking(client: Client, fetch_context: FetchContext, ids: Sequence[str]) -> str:
    """Check some requests by id: state, timeline, worker, records; and the ledger.

    Raises:
        StepError: it does not say what happened.
    """
    for request_id in ids[:: max(1, len(ids) // _TRACKED)]:
        status = client.get(fetch_context.biz, request_id)
        states = [event.state for event in status.timeline]
        if states[:1] != ["pending"] or states[-1:] != ["done"] or not status.worker:
            raise StepError(
                f"the timeline of {request_id} is {states}, its worker {status.worker!r}",
                f"`crawlfleet explain {fetch_context.biz} {request_id}`",
            )
    ledger = client.ledger(fetch_context.biz)
    if not ledger.balanced:
        raise StepError(
            f"{ledger.difference} requests are in no state",
            'See "When the ledger does not balance" in docs/guides/trouble.md.',
        )
    return f"timelines are whole, the ledger balances at {ledger.submitted}"
