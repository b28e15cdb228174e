"""Note the pages that a killed worker had leased: only these may be downloaded again."""

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from benchmarks.chaos.stored import StoredRequests


@dataclass(frozen=True, slots=True)
class Repeats:
    """Downloads beyond the first of each page: all, and those without a killed worker, by page."""

    all: int
    needless: Mapping[int, int]

    @property
    def needless_count(self) -> int:
        """Count the repeated downloads for which no killed worker is the reason."""
        return sum(self.needless.values())


class Hands:
    """Notes, right after each kill, what the killed worker owned and had downloaded or begun to.

    Args:
        stored: Who owns what.
        hits: The site's count of each page.
    """

    def __init__(self, stored: StoredRequests, hits: Callable[[], Mapping[int, int]]) -> None:
        self._stored = stored
        self._hits = hits
        self._allowed: Counter[int] = Counter()
        self._killed: set[str] = set()
        # One at a time, and not in the way of those who go on killing.
        self._notes = ThreadPoolExecutor(1, thread_name_prefix="hands")
        self._taken: list[Future[None]] = []

    def note(self, worker: str) -> None:
        """The worker was killed, or frozen for longer than it can keep its work."""
        self._killed.add(worker)
        self._taken.append(self._notes.submit(self._note, worker))

    def _note(self, worker: str) -> None:
        owned = self._stored.owned_by(worker)
        hits = self._hits()
        self._allowed.update(page for page in owned if hits.get(page))

    def repeats(self) -> Repeats:
        """Count when all is over."""
        for taken in self._taken:
            taken.result()
        more = {page: count - 1 for page, count in self._hits().items() if count > 1}
        beyond = {page: count - self._allowed[page] for page, count in more.items()}
        # A note that came late, as MongoDB was away, found with others what the dead had owned.
        late = {page for page, count in beyond.items() if count > 0}
        ended = self._stored.ended_in(self._killed, late) if late else Counter[int]()
        beyond |= {page: more[page] - max(self._allowed[page], ended[page]) for page in late}
        return Repeats(
            sum(more.values()), {page: count for page, count in beyond.items() if count > 0}
        )

    def close(self) -> None:
        """Wait for the last note."""
        self._notes.shutdown()
