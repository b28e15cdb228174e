"""Entries to submit, from arguments and from a file of lines.

``crawlfleet submit``: the journey of a submission as one sees it from outside.
"""

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

import click
import msgspec

from crawlfleet.cli import console
from crawlfleet.cli.console import Exit
from crawlfleet.cli.failures import NoRoomError
from crawlfleet.cli.following import followed, pages_reporter
from crawlfleet.cli.jobs import exit_code_of, say_end, say_known
from crawlfleet.cli.records.coverage import covered_by_records, page_without, warn_of_empty
from crawlfleet.cli.terminal import say
from crawlfleet.kernel.errors import BacklogFullError, CrawlfleetError, Problem

if TYPE_CHECKING:
    from crawlfleet.sdk import Client, Job, ProblemDocument, Record, RequestStatus, Submitted


#: How the SDK names an entry by its index.
_OTHER: Final = re.compile(r"(?<=^is that of )requests\[(\d{1,9})\]")


class Refusal(NamedTuple):
    """Line that was not sent, and what is wrong with it."""

    line: int
    message: str


class Entries(Iterable[str | dict[str, Any]]):
    """URLs first, then the file's lines: a URL, or a JSON object with the fields of an entry.

    Blank lines and lines that begin with ``#`` are passed over. Lines that are neither are kept in
    ``refusals`` and do not stop the others. ``place`` tells where an entry stood.
    """

    def __init__(self, urls: Sequence[str], source: IO[bytes] | None) -> None:
        self.refusals: list[Refusal] = []
        #: Jobs that entries name themselves.
        self.jobs: dict[str, None] = {}
        self._urls = urls
        self._source = source
        self._lines: list[int] = []

    def __iter__(self) -> Iterator[str | dict[str, Any]]:
        yield from self._urls
        for number, raw in enumerate(self._source or (), start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not text or text.startswith("#"):
                    continue
                entry = json.loads(text) if text.startswith("{") else text
            except UnicodeDecodeError:
                self.refusals.append(Refusal(number, "is not UTF-8 text"))
            except ValueError as error:
                self.refusals.append(Refusal(number, f"is no JSON object: {error}"))
            else:
                self._lines.append(number)
                if isinstance(entry, dict) and isinstance(job := entry.get("job"), str):
                    self.jobs[job] = None
                yield entry

    def place(self, index: int) -> str:
        """Name the place of an entry: ``line 3``, or ``URL 1`` of the arguments."""
        line = self.line(index)
        return f"line {line}" if line else f"URL {index + 1}"

    def line(self, index: int) -> int:
        """Return the line of an entry; 0 for the arguments before them all."""
        return self._lines[index - len(self._urls)] if index >= len(self._urls) else 0

    def placed(self, text: str) -> str:
        """Name other entries in the text by their places, and not as ``requests[2]``."""

        def place(other: re.Match[str]) -> str:
            index = int(other[1])
            known = index < len(self._urls) + len(self._lines)
            return self.place(index) if known else other[0]

        return _OTHER.sub(place, text)


#: Refusals and failures that are shown one by one.
_SHOWN = 20
#: Records of one page that are looked at for fields without a value.
_RECORDS: Final = 100
#: Seconds that --wait waits unless told otherwise.
_WAIT_SECONDS = 600.0


class Report:
    """Report of a submission, as far as it got."""

    def __init__(self, *, keep_all: bool) -> None:
        self.accepted = 0
        self.ids: list[str] = []
        self.answers: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.rejected = 0
        self.repeated = 0
        self.finished: list[RequestStatus] = []
        self.unfinished = 0
        self.jobs: list[Job] = []
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
            answer: dict[str, Any] = {"id": request_id, "url": result.url}
            if result.repeated:  # nobody looked how it is by now
                answer["repeated"] = True
            else:
                answer["state"] = result.state
            self.answers.append(answer)

    def refuse(self, place: str, why: str, url: str | None, error: Any) -> None:
        """Note an entry that was not accepted."""
        self.rejected += 1
        if len(self.refusals) < _SHOWN:
            self.refusals.append(f"{place}: {why}")
        if self._keep_all:
            self.answers.append({"place": place, "url": url, "error": error})

    def document(self, *, waited: bool) -> dict[str, Any]:
        """Return the submission's result as a JSON document, for scripts."""
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
            if self.jobs:
                document["jobs"] = self.jobs
        if self.error is not None:
            document["error"] = {"kind": type(self.error).__name__, "message": str(self.error)}
        return document

    def show(self, fleet: "Client", biz: str, names: Sequence[str], *, waited: bool) -> None:
        """Show the gist of it; ``names`` are the jobs that it was submitted under."""
        for refusal in self.refusals:
            console.note(refusal)
        if self.rejected > len(self.refusals):
            console.note(f"... and {self.rejected - len(self.refusals)} more were rejected")
        if self.accepted == 1 and not self.rejected:
            say(self.ids[0])
        else:
            say(f"accepted {self.accepted}, rejected {self.rejected}")
        if self.repeated and self.repeated == self.accepted == 1:
            console.note("it had been accepted before; nothing is stored twice")
        elif self.repeated:
            console.note(
                f"{self.repeated} of them had been accepted before; nothing is stored twice"
            )
        if waited:
            counts = Counter(status.state for status in self.finished)
            rows = sorted(counts.items()) + [("unfinished", self.unfinished)] * bool(
                self.unfinished
            )
            if rows:
                console.draw_table(["state", "requests>"], rows)
            failed = [status for status in self.finished if status.state != "done"]
            if failed:
                rows_of_failed = [(each.id, each.state, each.url, each.error) for each in failed]
                console.draw_table(
                    ["id", "state", "url", "error"], rows_of_failed[:_SHOWN], apart=True
                )
                console.note(f"why, step by step: crawlfleet explain {biz} {failed[0].id}")
            for job in self.jobs:
                say_end(fleet, biz, job)
            if not names:
                console.note(
                    "what their links lead to, where a rule follows any, was not waited for: "
                    "--job NAME --wait does that"
                )
        elif self.accepted and names:
            console.note(f"follow it: crawlfleet job wait {biz} {names[0]}")
        elif self.accepted == 1:
            console.note(f"follow it: crawlfleet status {biz} {self.ids[0]}")
        elif self.accepted:
            console.note(f"follow them: crawlfleet stats {biz} --watch")

    def exit_code(self) -> Exit:
        """1 where something did not end well, 2 where something was not even accepted."""
        if any(status.state != "done" for status in self.finished):
            return Exit.FAILED
        if any(exit_code_of(job) for job in self.jobs):
            return Exit.FAILED
        return Exit.BAD_INPUT if self.rejected else Exit.FINE


@click.command()
@click.argument("biz")
@click.argument("urls", nargs=-1, metavar="[URL]...")
@console.entries_option
@click.option("--rule", help="Rule for the entries that name none.")
@click.option(
    "--job",
    help="Job for the entries that name none: they, and what their links lead to, are counted "
    "under it, shown, waited for and cancelled together.",
)
@click.option(
    "--priority",
    type=click.IntRange(0, 10),
    help="Priority of the entries that name none, 0 to 10: higher ones are served earlier "
    "(default: 5).",
)
@click.option("--client-id", help="Your id of the one page: under it one request is stored.")
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Submit once: the same command under the same key stores nothing twice.",
)
@console.user_option
@console.traceparent_option
@click.option(
    "--wait",
    "waits",
    is_flag=True,
    help="Wait until all are done or given up on; with --job, what their links lead to, too.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    help="Seconds that --wait waits (default: 600), and --file for room in a full biz (default: as "
    "long as it takes).",
)
@console.with_api()
def submit(
    fleet: "Client",
    biz: str,
    urls: Sequence[str],
    source: IO[bytes] | None,
    client_id: str | None,
    waits: bool,
    timeout: float | None,
    as_json: bool,
    **common: Any,
) -> int:
    """Submit pages to be collected.

    BIZ is the business type; it knows the rules. Entries are answered one by one: those that are
    rejected do not stop the others, and make the exit code 2. With --wait it is 1 when one of the
    accepted ended dead, cancelled or expired, and 5 when the time was up before. A biz that has as
    much as it may is waited for with --file, not with URLs.

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
    entries, names = Entries(urls, source), list[str]()
    # A file may be more than the biz takes at once; a URL or two are for somebody who looks on.
    options = {
        **common,
        "client_ids": client_id,
        "timeout": None if source is None else math.inf if timeout is None else timeout,
        "on_wait": None if source is None else waiting(biz, lambda: report.accepted),
    }
    known = "links that were followed in their segment are not followed again"
    say_known(fleet, biz, common["job"] if waits else None, known)
    try:
        _send(fleet, biz, entries, report, options)
        names = list(dict.fromkeys([*filter(None, [common["job"]]), *entries.jobs]))
        if waits and report.ids:
            until = time.monotonic() + (_WAIT_SECONDS if timeout is None else timeout)
            _wait(fleet, biz, until - time.monotonic(), report, hidden=as_json)
            for name in names:
                left = max(0.0, until - time.monotonic())
                report.jobs.append(followed(fleet, biz, name, left, hidden=as_json))
    except BacklogFullError as error:
        report.error = error if source is None else _no_room(biz, error, report)
    except CrawlfleetError as error:
        report.error = error
    except KeyboardInterrupt:
        if report.accepted:
            accepted = console.counted(report.accepted, "request")
            console.note(f"work on {accepted} goes on: crawlfleet requests {biz} --since 10m")
        raise
    if report.error is not None and not (report.accepted or report.rejected or as_json):
        raise report.error
    if as_json:
        console.emit(report.document(waited=waits))
    else:
        report.show(fleet, biz, names, waited=waits)
        if not names:
            _warn_of_empty(fleet, biz, report.finished)
    if report.error is not None:
        raise report.error
    if not report.accepted and not report.rejected:
        raise click.UsageError("there was nothing to submit: the file has no entries")
    return report.exit_code()


def waiting(biz: str, accepted: Callable[[], int]) -> Callable[[float], None]:
    """Say that a full biz is waited for; once for each stretch in which it takes nothing."""
    said_at = -1

    def paused(seconds: float) -> None:
        nonlocal said_at
        if said_at != accepted():
            said_at = accepted()
            console.note(
                f"{biz} has as much as it may, {said_at} accepted so far: asking again "
                f"every {seconds:.0f} s (Ctrl-C ends it)"
            )

    return paused


def _no_room(biz: str, error: BacklogFullError, report: Report) -> NoRoomError:
    """Make the error of a file for which the time to wait was up."""
    what = f"{console.counted(report.accepted, 'request')} accepted"
    if report.rejected:
        what += f", {report.rejected} rejected"
    message = f"{biz} did not take the rest in time ({error}): {what} until then"
    return NoRoomError(message, retry_after_seconds=error.retry_after_seconds)


def _send(
    fleet: "Client", biz: str, entries: Entries, report: Report, options: dict[str, Any]
) -> None:
    reported = 0

    def report_unsent(before: float) -> None:
        """Note the lines that were not sent, up to that one: in their order among the others."""
        nonlocal reported
        while reported < len(entries.refusals) and entries.refusals[reported].line < before:
            unsent = entries.refusals[reported]
            report.refuse(f"line {unsent.line}", unsent.message, None, {"detail": unsent.message})
            reported += 1

    with console.progress("submitted") as advance:
        try:
            for result in fleet.submit_each(biz, entries, **options):
                report_unsent(entries.line(result.index))
                if result.id is not None:
                    report.accept(result.id, result)
                else:
                    error = _placed(result.error, entries)
                    report.refuse(entries.place(result.index), str(error), result.url, error)
                advance(result.index + 1, None)
        finally:
            report_unsent(math.inf)


def _placed(error: "ProblemDocument | None", entries: Entries) -> "ProblemDocument | None":
    """Name other entries in a problem by their places."""
    if error is None:
        return None
    problems = tuple(Problem(each.field, entries.placed(each.message)) for each in error.errors)
    return msgspec.structs.replace(error, errors=problems)


def _warn_of_empty(fleet: "Client", biz: str, finished: "Sequence[RequestStatus]") -> None:
    """Tell which fields next to no record of the first pages has, rule by rule."""
    by_rule: dict[str, list[Record]] = {}
    for status in [one for one in finished if one.records][:_SHOWN]:
        try:
            found = fleet.records(biz, request_id=status.id)
            by_rule.setdefault(status.rule, []).extend(islice(found, _RECORDS))
        except CrawlfleetError as error:
            console.note(f"the records could not be read: {error}")
            return
    for rule, records in sorted(by_rule.items()):
        covered = msgspec.structs.replace(covered_by_records(records), rule=rule)
        warn_of_empty(biz, [covered], page_without(records, covered.empty))


def _wait(fleet: "Client", biz: str, timeout: float, report: Report, *, hidden: bool) -> None:
    from crawlfleet.sdk import WaitTimeoutError

    with pages_reporter(hidden=hidden) as advance:
        try:
            report.finished = fleet.wait(biz, report.ids, timeout, progress=advance)
        except WaitTimeoutError as error:
            report.unfinished = error.unfinished
            report.finished = list(error.finished)
            raise
