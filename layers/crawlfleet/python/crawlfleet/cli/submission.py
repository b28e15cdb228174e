"""``crawlfleet submit``: the journey of a submission as one sees it from outside."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from crawlfleet.cli.connection import speaks_to_api
from crawlfleet.cli.console import counted, draw, emit, note, progress, table
from crawlfleet.cli.entries import Entries
from crawlfleet.cli.failures import Exit
from crawlfleet.errors import CrawlfleetError

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, RequestStatus, Submitted

#: Refusals and failures that are shown one by one.
_SHOWN = 20


class Report:
    """What became of a submission, as far as it got."""

    def __init__(self, *, keep_all: bool) -> None:
        self.accepted = 0
        self.ids: list[str] = []
        self.answers: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.rejected = 0
        self.repeated = 0
        self.finished: list[RequestStatus] = []
        self.unfinished = 0
        self.error: CrawlfleetError | None = None
        self._keep_all = keep_all
        self._started = time.monotonic()

    def accept(self, request_id: str, result: "Submitted") -> None:
        """Note an accepted entry."""
        self.accepted += 1
        self.repeated += result.repeated
        if self._keep_all or not self.ids:
            self.ids.append(request_id)
        if self._keep_all:
            answer: dict[str, Any] = {"id": request_id, "state": result.state, "url": result.url}
            if result.repeated:
                answer["repeated"] = True
            self.answers.append(answer)

    def refuse(self, place: str, why: str, url: str | None, error: Any) -> None:
        """Note an entry that was not accepted."""
        self.rejected += 1
        if len(self.refusals) < _SHOWN:
            self.refusals.append(f"{place}: {why}")
        if self._keep_all:
            self.answers.append({"place": place, "url": url, "error": error})

    def document(self, *, waited: bool) -> dict[str, Any]:
        """All of it, for scripts."""
        states = {status.id: status for status in self.finished}
        for answer in self.answers:
            status = states.get(answer.get("id", ""))
            if status is not None:
                answer["state"] = status.state
                answer["records"] = status.records
                if status.error is not None:
                    answer["error"] = status.error
        document: dict[str, Any] = {
            "accepted": self.accepted,
            "rejected": self.rejected,
            "requests": self.answers,
            "seconds": round(time.monotonic() - self._started, 3),
        }
        if waited:
            document["states"] = Counter(status.state for status in self.finished)
            document["unfinished"] = self.unfinished
            document["records"] = sum(status.records for status in self.finished)
        if self.error is not None:
            document["error"] = {"kind": type(self.error).__name__, "message": str(self.error)}
        return document

    def show(self, biz: str, *, waited: bool) -> None:
        """The gist of it, for people."""
        for refusal in self.refusals:
            note(refusal)
        if self.rejected > len(self.refusals):
            note(f"... and {self.rejected - len(self.refusals)} more were rejected")
        if self.accepted == 1 and not self.rejected:
            click.echo(self.ids[0])
        else:
            click.echo(f"accepted {self.accepted}, rejected {self.rejected}")
        if self.repeated:
            note(f"{self.repeated} of them had been accepted before; nothing is stored twice")
        if waited:
            counts = Counter(status.state for status in self.finished)
            rows = sorted(counts.items()) + [("unfinished", self.unfinished)] * bool(
                self.unfinished
            )
            if rows:
                draw(table(["state", "requests>"], rows))
            failed = [status for status in self.finished if status.state != "done"]
            if failed:
                rows_of_failed = [(each.id, each.state, each.url, each.error) for each in failed]
                draw(table(["id", "state", "url", "error"], rows_of_failed[:_SHOWN]))
        elif self.accepted == 1:
            note(f"follow it: crawlfleet status {biz} {self.ids[0]}")
        elif self.accepted:
            note(f"follow them: crawlfleet stats {biz} --watch")

    def exit_code(self) -> Exit:
        """1 where something did not end well, 2 where something was not even accepted."""
        if any(status.state != "done" for status in self.finished):
            return Exit.FAILED
        return Exit.BAD_INPUT if self.rejected else Exit.FINE


@click.command()
@click.argument("biz")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@click.option(
    "--file",
    "-f",
    "source",
    type=click.File("rb"),
    help="A URL, or an entry as a JSON object, per line; - reads standard input.",
)
@click.option("--rule", help="Rule for the entries that name none.")
@click.option("--job", help="Job for the entries that name none: what they are counted under.")
@click.option("--client-id", help="Your id of the one page: under it one request is stored.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Submit once: the same command under the same key stores nothing twice.",
)
@click.option("--wait", "waits", is_flag=True, help="Wait until all are done or given up on.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds that --wait waits.",
)
@speaks_to_api
def submit(
    fleet: "Client",
    biz: str,
    urls: Sequence[str],
    source: IO[bytes] | None,
    rule: str | None,
    job: str | None,
    client_id: str | None,
    idempotency_key: str | None,
    waits: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Submit pages to be collected.

    BIZ is the business type; it knows the rules. Entries are answered one by one: those that are
    rejected do not stop the others, and make the exit code 2. With --wait it is 1 when one of the
    accepted ended dead, cancelled or expired, and 5 when the time was up before.

    \b
    crawlfleet submit news https://example.org/1 --wait
    crawlfleet submit news --file urls.txt --rule article --json
    echo '{"url": "https://example.org/1", "meta": {"page": 1}}' | crawlfleet submit news -f -
    """  # noqa: D301  click reads this backspace: the lines below it are not to be wrapped
    if not urls and source is None:
        raise click.UsageError(
            "there is nothing to submit: give URLs, or --file with lines of them"
        )
    if client_id is not None and (source is not None or len(urls) != 1):
        raise click.UsageError(
            "--client-id is for one URL; lines of --file may have a client_id of their own"
        )
    report = Report(keep_all=waits or as_json)
    entries = Entries(urls, source)
    # A file may be more than the biz takes at once; a URL or two are for somebody who looks on.
    options = {
        "rule": rule,
        "job": job,
        "client_ids": client_id,
        "idempotency_key": idempotency_key,
        "timeout": None if source is None else math.inf,
        "on_wait": None if source is None else _Waiting(biz, report).told,
    }
    try:
        _send(fleet, biz, entries, report, options)
        if waits and report.ids:
            _wait(fleet, biz, timeout, report)
    except CrawlfleetError as error:
        report.error = error
    except KeyboardInterrupt:
        if report.accepted:
            accepted = counted(report.accepted, "request")
            note(f"work on {accepted} goes on: crawlfleet requests {biz} --since 10m")
        raise
    if report.error is not None and not (report.accepted or report.rejected or as_json):
        raise report.error
    if as_json:
        emit(report.document(waited=waits))
    else:
        report.show(biz, waited=waits)
    if report.error is not None:
        raise report.error
    if not report.accepted and not report.rejected:
        raise click.UsageError("there was nothing to submit: the file has no entries")
    return report.exit_code()


class _Waiting:
    """Says that a full biz is waited for; once for each stretch in which it takes nothing."""

    def __init__(self, biz: str, report: Report) -> None:
        self._biz = biz
        self._report = report
        self._said_at = -1

    def told(self, seconds: float) -> None:
        """Hear of a pause."""
        if self._said_at != self._report.accepted:
            self._said_at = self._report.accepted
            note(
                f"{self._biz} has as much as it may, {self._said_at} accepted so far: asking again "
                f"every {seconds:.0f} s (Ctrl-C ends it)"
            )


def _send(
    fleet: "Client", biz: str, entries: Entries, report: Report, options: dict[str, Any]
) -> None:
    with progress("submitted") as advance:
        try:
            for result in fleet.submit_each(biz, entries, **options):
                if result.id is not None:
                    report.accept(result.id, result)
                else:
                    place = entries.place(result.index)
                    report.refuse(place, str(result.error), result.url, result.error)
                advance(result.index + 1, None)
        finally:
            for refusal in entries.refusals:
                report.refuse(refusal.place, refusal.message, None, {"detail": refusal.message})


def _wait(fleet: "Client", biz: str, timeout: float, report: Report) -> None:
    from crawlfleet.sdk import WaitTimeoutError

    with progress("finished") as advance:
        try:
            report.finished = fleet.wait(biz, report.ids, timeout, progress=advance)
        except WaitTimeoutError as error:
            report.unfinished = error.unfinished
            report.finished = list(error.finished)
            raise
