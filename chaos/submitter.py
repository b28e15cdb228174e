"""Who submits: batch after batch, each repeated with the same ids until it is accepted."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from chaos.house import RULE, ChaosParts, World
from chaos.site import Site
from crawlfleet.errors import ConflictError, CrawlfleetError
from crawlfleet.flows.submission import persist_and_enqueue
from crawlfleet.model.ids import RequestId
from crawlfleet.model.request import Body, Request
from crawlfleet.model.submission import Accepted, Refused, Submission
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.admission import Admission
from crawlfleet.wiring.parts import now
from crawlfleet.wiring.submissions import submission_ports

BATCH: Final = 100
#: Between two looks at whether there is room, and before a refused batch is repeated.
PAUSE_SECONDS: Final = 0.1


class Submitter:
    """Submits a run's pages in a thread of its own.

    Args:
        world: Where to.
        site: Whose pages.
        count: How many.
        window: How many may be open at once, so that submissions go on for as long as the crawl.
        done: How many are done.
        wake: What the product's waker does.
        tell: Is told what was refused.
    """

    def __init__(
        self,
        world: World,
        site: Site,
        count: int,
        window: int,
        done: Callable[[], int],
        wake: Callable[[int], None],
        tell: Callable[[str], None],
    ) -> None:
        self._world = world
        self._site = site
        self._count = count
        self._window = window
        self._done = done
        self._tell = tell
        self._parts = ChaosParts(world, "router", wake, tell)
        self._ports = submission_ports(self._parts)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="submitter", daemon=True)
        #: The page of each id, known before anybody can work on it.
        self.pages: dict[RequestId, int] = {}
        #: Those that were answered with yes.
        self.accepted: set[RequestId] = set()
        #: Ids that were given a second time: there must be none.
        self.ids_twice = 0
        #: Batches that had to be repeated.
        self.repeated = 0
        self.error: BaseException | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def finished(self) -> bool:
        """Whether everything was accepted."""
        return len(self.accepted) == self._count

    def stop(self) -> None:
        """Submit no more."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(30)
        self._parts.close()

    def _run(self) -> None:
        try:
            bodies = self._bodies()
            self._until_it_is_done(lambda: self._freeze_rule() or True)
            for start in range(0, self._count, BATCH):
                while len(self.accepted) - self._done() > self._window:
                    if self._stopping.wait(PAUSE_SECONDS):
                        return
                self._submit(start, bodies[start : start + BATCH])
        except BaseException as error:  # noqa: BLE001  whoever runs this looks here
            self.error = error

    def _bodies(self) -> list[Body]:
        admission = Admission(self._world.biz)
        found = []
        for number in range(self._count):
            url = self._site.url(self._world.tenant, number)
            body = admission.admit(Submission(url=url, rule=RULE), "")
            if not isinstance(body, Body):
                raise TypeError(f"{url} is not admitted: {body}")
            found.append(body)
        return found

    def _freeze_rule(self) -> None:
        self._ports.rules.freeze(self._world.lane, RULE, self._world.biz.rules[RULE])

    def _submit(self, start: int, bodies: Sequence[Body]) -> None:
        requests: list[Request] = []

        def submit() -> bool:
            if not requests:
                requests.extend(self._requests(start, bodies))
            receipts = persist_and_enqueue(
                self._ports, self._world.lane, self._world.biz, requests, now()
            )
            refused = []
            for request, receipt in zip(requests, receipts, strict=True):
                # In conflict with itself: an earlier try of this batch has stored it.
                if isinstance(receipt, Accepted) or isinstance(receipt.error, ConflictError):
                    self.accepted.add(request.id)
                else:
                    refused.append(receipt)
            return self._all_stored(refused)

        self._until_it_is_done(submit)

    def _all_stored(self, refused: Sequence[Refused]) -> bool:
        if refused:
            self._tell(f"{len(refused)} of a batch were refused: {refused[0].error}")
        return not refused

    def _requests(self, start: int, bodies: Sequence[Body]) -> list[Request]:
        ids = self._ports.ids.take(self._world.lane, self._world.biz.id_kind, len(bodies))
        queued_at = from_ms(to_ms(now()))
        requests = []
        for place, (an_id, body) in enumerate(zip(ids, bodies, strict=True)):
            self.ids_twice += an_id in self.pages
            self.pages[an_id] = start + place
            requests.append(
                Request(
                    id=an_id,
                    tenant=self._world.tenant,
                    biz=self._world.lane.biz,
                    queued_at=queued_at,
                    body=body,
                )
            )
        return requests

    def _until_it_is_done(self, act: Callable[[], bool]) -> None:
        while not self._stopping.is_set():
            try:
                if act():
                    return
            except CrawlfleetError as error:
                self._tell(f"a batch was refused: {type(error).__name__}: {error}")
            self.repeated += 1
            self._stopping.wait(PAUSE_SECONDS)
