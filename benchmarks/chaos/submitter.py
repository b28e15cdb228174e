"""Submit batch after batch, each repeated under its key until it is accepted, and after."""

import threading
from collections.abc import Callable
from random import Random
from typing import Final

from benchmarks.chaos.house import RULE, ChaosParts, World
from benchmarks.chaos.site import Site
from crawlfleet.apps.context import now
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.requests.submission.admission import Accepted, Submission

BATCH: Final = 100
#: The job of every other batch.
JOB: Final = "every-other"
#: One batch of so many is sent again although it was accepted: an answer that got lost.
_SENT_AGAIN: Final = 10
#: Seconds between two checks for room, and before a refused batch is repeated.
PAUSE_SECONDS: Final = 0.1


class Submitter:
    """Submits a run's pages in a thread of its own.

    Args:
        world: Where to.
        site: Whose pages.
        count: How many.
        window: How many may be open at once, so that submissions go on for as long as the crawl.
        done: How many are done.
        dice: Decides which batches are sent again.
        wake: What the product's waker does.
        announce: Gets what was refused.
        last: Whether the last batch may be sent: there is work for as long as harm is to be done.
    """

    def __init__(
        self,
        world: World,
        site: Site,
        count: int,
        window: int,
        done: Callable[[], int],
        dice: Random,
        wake: Callable[[int], None],
        announce: Callable[[str], None],
        last: Callable[[], bool] = lambda: True,
    ) -> None:
        self._world = world
        self._site = site
        self._count = count
        self._window = window
        self._last = last
        self._done = done
        self._dice = dice
        self._announce = announce
        self._parts = ChaosParts(world, "router", wake, announce)
        self._ports = open_submissions(self._parts)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)
        #: The ids that were answered with yes, and the page of each.
        self.accepted: dict[RequestId, int] = {}
        #: How many of them were given the job.
        self.in_job = 0
        #: It waits with the last batch.
        self.waits = False
        #: Batches that had to be repeated.
        self.repeated = 0
        self.problems: list[str] = []
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Submit no more."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(30)
        self._parts.close()

    def _run(self) -> None:
        try:
            for start in range(0, self._count, BATCH):
                while len(self.accepted) - self._done() > self._window:
                    if self._stopping.wait(PAUSE_SECONDS):
                        return
                while start + BATCH >= self._count and not self._last():
                    self.waits = True
                    if self._stopping.wait(PAUSE_SECONDS):
                        return
                self._submit(start)
        except BaseException as error:  # noqa: BLE001  whoever runs this looks here
            self.error = error

    def _submit(self, start: int) -> None:
        pages = range(start, min(start + BATCH, self._count))
        job = JOB if start // BATCH % 2 else None
        submissions = [
            Submission(url=self._site.url(self._world.tenant, page), rule=RULE, job=job)
            for page in pages
        ]
        key = f"batch-{start}"
        ids = self._until_accepted(submissions, key)
        if ids is None:
            return
        for an_id, page in zip(ids, pages, strict=True):
            if an_id in self.accepted:
                self.problems.append(
                    f"id {an_id} was given to pages {self.accepted[an_id]}, {page}"
                )
            self.accepted[an_id] = page
        self.in_job += len(ids) if job else 0
        if not self._dice.randrange(_SENT_AGAIN):
            again = self._until_accepted(submissions, key)
            if again not in (None, ids):
                self.problems.append(f"{key} has other ids when it is sent again")

    def _until_accepted(self, submissions: list[Submission], key: str) -> list[RequestId] | None:
        """Send until each entry is accepted; returns the ids, or None when the run is over."""
        world = self._world
        while not self._stopping.is_set():
            try:
                receipts = self._ports.submit(
                    world.tree,
                    world.tenant,
                    world.queue_key.biz,
                    submissions,
                    now(),
                    key=key,
                )
                ids = [receipt.id for receipt in receipts if isinstance(receipt, Accepted)]
                if len(ids) == len(receipts):
                    return ids
                self._announce(f"{len(receipts) - len(ids)} entries of {key} were refused")
            except CrawlfleetError as error:
                self._announce(f"{key} was refused: {type(error).__name__}: {error}")
            self.repeated += 1
            self._stopping.wait(PAUSE_SECONDS)
        return None
