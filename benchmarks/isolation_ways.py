"""The ways in which a hostile tenant harms others, and what it does them with."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from benchmarks.house import PAGE_RULE, BenchParts
from benchmarks.isolation_site import ROBOTS_NETWORK
from crawlfleet.apps.context import now
from crawlfleet.apps.rounds import open_seed_dispatcher
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.rule import Field, Follow, Rule, Selector
from crawlfleet.crawling.frontier.models import SeedSpec
from crawlfleet.crawling.frontier.service import add_seeds
from crawlfleet.jobs.models import Job, JobState
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.spiders.models import Range, Start
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.submission.admission import BATCH_LIMIT, Submission

#: The hostile tenant.
OTHER: Final = "other"
#: What 1.0 is of: 5,000,000 submissions, and a job of as many tasks.
ENTRIES: Final = 5_000_000
#: Nobody listens here.
CLOSED_PORT: Final = 9

#: The rules of both tenants.
RULES: Final = {
    "page": PAGE_RULE,
    "records": Rule(items=Selector(xpath="//li"), fields={"text": Field(xpath="string(.)")}),
    "links": Rule(follow=(Follow(css="a", rule="page", max_depth=3),)),
    "rules": Rule(fields={"x": Field(xpath="count(//p[count(//p[. = 'b']) < 1])")}),
}


@dataclass(slots=True)
class Scene:
    """The means of the hostile tenant: the run's parts, its site, the part of all that it does.

    ``wave`` is the part of that which comes now.
    """

    parts: BenchParts
    tree: Tree
    site: str
    size: float
    numbers: Iterator[int] = field(default_factory=count)
    wave: float = 1.0

    def submit(self, biz: str, urls: Sequence[str], rule: str = "page") -> None:
        """Submit pages of the hostile tenant; what is refused is."""
        submissions = open_submissions(self.parts)
        for at in range(0, len(urls), BATCH_LIMIT):
            part = [Submission(url=url, rule=rule) for url in urls[at : at + BATCH_LIMIT]]
            submissions.submit(self.tree, OTHER, biz, part, now())

    def pages(self, kind: str, many: int, host: str = "127.0.0.2") -> list[str]:
        """Make addresses of pages that were not there before."""
        return [f"http://{host}:{self.site}/{kind}/{next(self.numbers)}" for _ in range(many)]

    def hosts(self, kind: str, many: int, network: str) -> list[str]:
        """Make addresses of pages, each of a host of its own in a network."""
        found = []
        for _ in range(many):
            n = next(self.numbers)
            host = f"{network}.{n // 250 % 250}.{1 + n % 250}"
            found += self.pages(kind, 1, host)
        return found

    def some(self, of: int) -> int:
        """Scale a number of the hostile tenant's that no machine of ours takes as it is."""
        return self.many(int(of * self.size))

    def many(self, of: int) -> int:
        """Return the part of a number that comes now."""
        return max(1, int(of * self.wave))

    @property
    def bizs(self) -> list[str]:
        """The bizs of the hostile tenant."""
        return list(self.tree.bizs[OTHER])


def _bizs(scene: Scene) -> None:
    for biz in scene.bizs:
        scene.submit(biz, scene.pages("plain", scene.many(1_000)))


def _entries(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("plain", scene.some(ENTRIES)))


def _rules(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("rules", scene.many(2_000)), "rules")


def _robots(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.hosts("plain", scene.many(1_000), ROBOTS_NETWORK))


def _trials(scene: Scene) -> None:
    # What the router does of a trial beside workers, whoever reads the page: it counts the trial,
    # and refuses it beyond the ceiling.
    ceilings = open_submissions(scene.parts).ceilings
    for _ in range(scene.many(10_000)):
        try:
            with ceilings.trial(scene.tree, OTHER):
                pass
        except Exception:  # noqa: BLE001  it is refused
            pass


def _hosts(scene: Scene) -> None:
    scene.submit(scene.bizs[1], scene.hosts("plain", scene.many(5_000), "127.200"))


def _backing_off(scene: Scene) -> None:
    closed = [f"http://127.0.0.1:{CLOSED_PORT}/{n}" for n in range(scene.many(500))]
    scene.submit(scene.bizs[0], closed)
    scene.submit(scene.bizs[1], scene.pages("busy", scene.many(1_000), "127.0.0.1"))


def _jobs(scene: Scene) -> None:
    jobs, size = MongoJobs(scene.parts.nodes), scene.some(ENTRIES)
    start = Start(
        pattern=f"http://127.0.0.2:{scene.site}/plain/{{n}}", values={"n": Range(last=size)}
    )
    for biz in scene.bizs:
        jobs.create(
            Job(
                tenant=OTHER,
                biz=biz,
                name=f"long-{next(scene.numbers)}",
                state=JobState.EXPANDING,
                rule="page",
                rule_version=PAGE_RULE.version,
                start=start,
                size=size,
                created_at=from_ms(to_ms(now())),
                by="api",
            )
        )


def _records(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("records", scene.many(1_000)), "records")


def _seeds(scene: Scene) -> None:
    for biz in scene.bizs:
        scene.submit(biz, scene.pages("links", scene.many(200)), "links")
    dispatcher = open_seed_dispatcher(scene.parts, open_submissions(scene.parts))
    for biz in scene.bizs:
        specs = [
            SeedSpec(url=url, rule="links") for url in scene.pages("links", scene.many(BATCH_LIMIT))
        ]
        add_seeds(dispatcher, scene.tree, OTHER, biz, specs, now())


def _dead_letters(scene: Scene) -> None:
    scene.submit(scene.bizs[0], scene.pages("gone", scene.many(5_000)))


#: The eleven ways, in words of issue 20.
WAYS: Final[dict[str, Callable[[Scene], None]]] = {
    "bizs": _bizs,
    "entries": _entries,
    "rules": _rules,
    "robots": _robots,
    "trials": _trials,
    "hosts": _hosts,
    "back-off": _backing_off,
    "jobs": _jobs,
    "records": _records,
    "seeds": _seeds,
    "dead letters": _dead_letters,
}
