"""`make demo`: the main job from start to finish on one machine, then nothing is left running.

A local cloud of its own, the standard library's documentation server as the site (or a site of the
user's choice), a biz with rules pushed to the config centre, pages submitted over HTTP, a progress
bar while the consumers crawl, and what came out of it. `make demo STREAM=1` shows streams instead.
"""

import argparse
import json
import signal
import socket
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urldefrag, urljoin, urlsplit

import requests
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.sdk import Client, Record, RequestStatus, Stats
from infra.local import demo_streams
from infra.local.cloud import LocalCloud
from infra.local.parts import LOOPBACK, GuardedProcess, PartError, free_port, python_environment
from infra.local.seeding import SAMPLES

#: Pages that are submitted, unless the site has fewer.
PAGES: Final = 220
#: Longest time for the whole crawl; a site that is too slow ends the demo, not the patience.
DEADLINE_SECONDS: Final = 600.0
#: How often the progress bar looks.
_LOOK_SECONDS: Final = 0.25
#: How long it waits for the workers' account of their time.
_PHASES_SECONDS: Final = 5.0
#: How long the site has to answer at all, before anything is started.
_CONNECT_SECONDS: Final = 10.0
#: pydoc shows a module by importing it. These do something then: open a browser, print, draw.
_ACTIVE_MODULES: Final = frozenset(
    {"antigravity", "this", "turtle", "idlelib", "turtledemo", "__main__"}
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The output of `make demo JSON=1`."""

    submitted: int
    done: int
    dead: int
    pending: int
    records: int
    seconds: float
    pages_per_second: float


@dataclass(frozen=True, slots=True)
class Site:
    """A site to crawl: its biz, where it begins, which links belong to it."""

    biz: str
    start: str

    def has(self, url: str) -> bool:
        """Return whether a link leads to a page of this site that is worth asking for."""
        wanted, own = urlsplit(url), urlsplit(self.start)
        if (wanted.scheme, wanted.netloc) != (own.scheme, own.netloc):
            return False
        module = wanted.path.rpartition("/")[2].split(".")[0]
        return self.biz != "docs" or (
            wanted.path.endswith(".html") and not wanted.query and module not in _ACTIVE_MODULES
        )


@contextmanager
def documentation_site(folder: Path) -> Iterator[Site]:
    """The documentation of this Python's standard library, served by itself."""
    port = free_port()
    # -I and -S: the standard library's pages only, not those of whatever is installed here.
    command = [sys.executable, "-I", "-S", "-m", "pydoc", "-n", LOOPBACK, "-p", str(port)]
    # pydoc's server reads commands from its standard input and ends when that ends; and it shows
    # the modules of the folder it runs in.
    keep_open = (
        "import subprocess, sys; server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE,"
        " cwd=sys.argv[1]); sys.exit(server.wait())"
    )
    empty = folder / "pydoc"
    empty.mkdir()
    server = GuardedProcess(
        "the documentation server",
        [sys.executable, "-c", keep_open, str(empty), *command],
        folder / "pydoc.log",
        python_environment(),
    )
    try:
        server.wait_until(lambda: _answers(f"http://{LOOPBACK}:{port}/"), 60)
        yield Site("docs", f"http://{LOOPBACK}:{port}/")
    finally:
        server.stop()


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=5).ok
    except requests.RequestException:
        return False


class Crawl:
    """Submits a site's pages, following the links of its records, until there are enough."""

    def __init__(self, client: Client, site: Site, pages: int) -> None:
        self._client = client
        self.site = site
        self._pages = pages
        self._seen: set[str] = set()
        self._found: deque[str] = deque()
        self.ids: list[str] = []
        self.refusals: list[str] = []

    def begin(self) -> None:
        """Submit the first page."""
        self._seen.add(self.site.start)
        self._found.append(self.site.start)
        self.submit()

    def submit(self) -> None:
        """Submit what was found, in one call, as far as it is still wanted."""
        wanted = min(len(self._found), self._pages - len(self.ids))
        urls = [self._found.popleft() for _ in range(wanted)]
        if urls:
            entries = [{"url": url, "rule": "page"} for url in urls]
            answers = self._client.submit(self.site.biz, entries)
            self.ids += [answer.id for answer in answers if answer.id is not None]
            self.refusals += [
                f"{answer.url} was rejected: {answer.error}" for answer in answers if answer.error
            ]

    @property
    def complete(self) -> bool:
        """Return whether as many pages as wanted are submitted."""
        return len(self.ids) >= self._pages

    def follow(self, records: list[Record]) -> None:
        """Take the links of new records."""
        for record in records:
            for link in record.fields.get("links") or ():
                self._add(urljoin(record.url, str(link)))

    def _add(self, link: str) -> None:
        url = urldefrag(link).url
        if url not in self._seen and self.site.has(url):
            self._seen.add(url)
            self._found.append(url)


def crawl(client: Client, site: Site, pages: int, console: Console) -> tuple[Crawl, Stats, float]:
    """Run the crawl under a progress bar; returns it, the last statistics, and the seconds."""
    job = Crawl(client, site, pages)
    seen: set[str] = set()
    began = time.monotonic()
    job.begin()
    with Progress(
        TextColumn("crawling"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]} pages/s"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        bar = progress.add_task("crawl", total=pages, rate="-")
        while True:
            if not job.complete:
                fresh = [r for r in client.records(site.biz) if r.id not in seen]
                seen.update(record.id for record in fresh)
                job.follow(fresh)
                job.submit()
            stats = client.stats(site.biz)
            ended = sum(stats.states.get(state, 0) for state in ("done", "dead"))
            took = time.monotonic() - began
            progress.update(bar, completed=ended, rate=f"{ended / took:.0f}")
            if stats.unfinished == 0 and ended >= len(job.ids):
                if job.complete or not _more_links(client, site, job, seen):
                    return job, _with_phases(client, site, stats), took
            elif took > DEADLINE_SECONDS:
                return job, stats, took
            time.sleep(_LOOK_SECONDS)


def _with_phases(client: Client, site: Site, stats: Stats) -> Stats:
    """The same, once the workers have told where their time went, which they do in intervals."""
    deadline = time.monotonic() + _PHASES_SECONDS
    while "fetch" not in stats.phases and stats.records and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        stats = client.stats(site.biz)
    return stats


def _more_links(client: Client, site: Site, job: Crawl, seen: set[str]) -> bool:
    """Submit the links of the records stored last; return whether there were any."""
    before = len(job.ids)
    job.follow([record for record in client.records(site.biz) if record.id not in seen])
    job.submit()
    return len(job.ids) > before


def summary_of(job: Crawl, stats: Stats, seconds: float) -> Summary:
    """The figures."""
    done, dead = stats.states.get("done", 0), stats.states.get("dead", 0)
    return Summary(
        submitted=len(job.ids),
        done=done,
        dead=dead,
        pending=stats.unfinished,
        records=stats.records,
        seconds=round(seconds, 3),
        pages_per_second=round(done / seconds, 1) if seconds else 0.0,
    )


def show(console: Console, summary: Summary, stats: Stats, client: Client, job: Crawl) -> None:
    """Print everything for people."""
    table = Table(title="What was crawled", show_header=False)
    for name, value in asdict(summary).items():
        table.add_row(name.replace("_", " "), f"{value:,}")
    console.print(table)

    if stats.phases:
        _show_phases(console, stats)
    some = list(_some(client.records(job.site.biz), 3))
    if some:
        console.print("\n[bold]Some of the records[/bold]")
    for record in some:
        console.print_json(json.dumps(_shortened(record)))
    if job.ids:
        _show_timeline(console, client.get(job.site.biz, job.ids[-1]))
    for refusal in job.refusals[:5]:
        console.print(refusal, style="red", soft_wrap=True, highlight=False, markup=False)


def _show_phases(console: Console, stats: Stats) -> None:
    spent = sum(stats.phases.values()) or 1.0
    console.print(
        "\n[bold]Where the workers' time went[/bold], all pages added up; "
        "`wait` is for a turn at the host",
        soft_wrap=True,
        highlight=False,
    )
    phases = Table()
    for column in ("phase", "seconds", "share", ""):
        phases.add_column(column, justify="left" if column in ("phase", "") else "right")
    for phase, seconds in sorted(stats.phases.items(), key=lambda item: -item[1]):
        share = seconds / spent
        phases.add_row(phase, f"{seconds:.2f}", f"{share:.0%}", "█" * round(share * 30))
    console.print(phases)


def _show_timeline(console: Console, status: RequestStatus) -> None:
    console.print(f"\n[bold]The timeline of request {status.id}[/bold]  {status.url}")
    for event in status.timeline:
        line = f"  {event.at:%H:%M:%S.%f}"[:-3] + f"  {event.state:<9} by {event.by}: {event.why}"
        console.print(line, soft_wrap=True, highlight=False)


def _some(records: Iterator[Record], count: int) -> Iterator[Record]:
    for _, record in zip(range(count), records, strict=False):
        yield record


def _shortened(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in record.fields.items():
        if isinstance(value, list) and len(value) > 3:
            fields[name] = [*value[:3], f"... {len(value) - 3} more"]
        elif isinstance(value, str) and len(value) > 160:
            fields[name] = value[:160] + "..."
        else:
            fields[name] = value
    return {"id": record.id, "url": record.url, "fields": fields}


def run(url: str | None, pages: int, *, as_json: bool) -> int:
    """Run the demo; returns the exit code: 0 when everything submitted was done."""
    console = Console(stderr=as_json)
    with tempfile.TemporaryDirectory(prefix="crawlfleet-demo-") as name:
        folder = Path(name)
        console.print("starting Redis, MongoDB, the AWS control plane and the six functions ...")
        with LocalCloud(folder / "cloud") as cloud, _site(url, folder) as site:
            console.print(f"  API      {cloud.api_url}")
            rules = f"{SAMPLES.parent.name}/{SAMPLES.name}/bizs/default/{site.biz}.yaml"
            console.print(f"  rules    {rules}, pushed to the config centre", soft_wrap=True)
            console.print(f"  site     {site.start}\n", soft_wrap=True)
            with Client(cloud.api_url, cloud.api_key) as client:
                job, stats, seconds = crawl(client, site, pages, console)
                summary = summary_of(job, stats, seconds)
                show(console, summary, stats, client, job)
    console.print(
        "\neverything is stopped; `make up` keeps it running, the web console at /console/ too",
        soft_wrap=True,
    )
    if as_json:
        sys.stdout.write(json.dumps(asdict(summary)) + "\n")
    return 0 if summary.done == summary.submitted > 0 else 1


def _unfit(url: str) -> str | None:
    """Return why nothing can be crawled there, if that shows before everything is started."""
    try:
        parts = urlsplit(url)
        place = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    except ValueError:
        return f"{url!r} is no URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return f"must be an http or https URL with a host, not {url!r}"
    try:
        socket.create_connection(place, timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return f"nobody answers at {place[0]}, port {place[1]}: {error.strerror or error}"
    return None


@contextmanager
def _site(url: str | None, folder: Path) -> Iterator[Site]:
    if url is None:
        with documentation_site(folder) as site:
            yield site
    else:
        yield Site("site", url)


def main(arguments: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="crawlfleet demo", description=__doc__)
    parser.add_argument("--url", help="crawl this site instead, politely: two connections")
    parser.add_argument(
        "--pages", type=int, default=PAGES, help="how many pages (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="the summary as JSON on the last line")
    parser.add_argument(
        "--stream", action="store_true", help="show a stream that two subscribers share instead"
    )
    options = parser.parse_args(arguments)
    if options.pages < 1:
        parser.error("argument --pages: must be at least 1")
    if options.stream and options.url is not None:
        parser.error("argument --stream: it crawls no site, so leave out --url")
    if options.url is not None and (problem := _unfit(options.url)):
        parser.error(f"argument --url: {problem}")
    # What a closed terminal or `kill` sends ends the demo the way Ctrl-C does: nothing stays
    # running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if options.stream:
            return demo_streams.run(as_json=options.json)
        return run(options.url, options.pages, as_json=options.json)
    except (PartError, CrawlfleetError) as error:
        sys.stderr.write(f"the demo could not run: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
