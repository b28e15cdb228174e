"""Helpers of the dead letter suites: requests that die, and searches for dead letters."""

from datetime import timedelta

from tests.contract.store_cases import (
    NOW,
    Fleet,
    a_request,
    snowflakes,
)
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.requests import MemoryRequestStore
from tests.kit.dead_letters import DeadLetterFilter, MongoDeadLetters
from tests.kit.requests import Body, Dead

SECOND = timedelta(seconds=1)
ALL = DeadLetterFilter()


class DeadLetterCases:
    """Dead letters of a fleet's queue, with the arguments that nearly every call repeats."""

    def __init__(self, fleet: Fleet, scan: int = 10_000) -> None:
        self.fleet = fleet
        store = fleet.store
        if isinstance(store, MemoryRequestStore):
            self.port = MemoryDeadLetters(store.state, scan)
        else:
            self.port = MongoDeadLetters(store.nodes, scan, least_scan=1)

    def look(self, dead_letters=ALL, *, after=None, limit=1_000, now=NOW):
        return self.port.find(
            self.fleet.queue_key, self.fleet.biz, dead_letters, after=after, limit=limit, now=now
        )

    def found(self, dead_letters=ALL, *, limit=1_000):
        """Return all matching dead letters, page by page, and the number of pages."""
        found, after, looks = [], None, 0
        while True:
            page = self.look(dead_letters, after=after, limit=limit)
            assert len(page.dead_letters) <= limit
            found += page.dead_letters
            looks += 1
            if page.reached is None:
                return found, looks
            assert page.reached != after, "no look may end where it began"
            after = page.reached

    def ids(self, dead_letters=ALL, **options):
        return [one.request.id for one in self.found(dead_letters, **options)[0]]

    def replay(self, requests, versions=None, by="api:me", now=NOW):
        ids = [r.id for r in requests]
        return self.port.replay(self.fleet.queue_key, self.fleet.biz, ids, versions or {}, by, now)

    def purge(self, requests):
        ids = [r.id for r in requests]
        return self.port.purge(self.fleet.queue_key, self.fleet.biz, ids, "api:me", NOW)


def kill(fleet, requests, error="PageGone: answered 404", reason="PageGone", answer=None):
    fleet.settle([(c, Dead(error, reason, answer)) for c in fleet.claim(requests)])


def submit(fleet, number, at=NOW, worker=7, **changes):
    """Requests whose body or job differs from the usual."""
    body = {n: changes.pop(n) for n in ("url", "rule") if n in changes}
    requests = []
    for an_id in snowflakes(number, at, worker):
        one = Body(
            **{"url": f"https://site.example/{an_id}", "rule": "detail", **body}, rule_version="v1"
        )
        requests.append(a_request(fleet.queue_key, an_id, at, body=one, **changes))
    assert fleet.insert(requests).refused == {}
    return requests
