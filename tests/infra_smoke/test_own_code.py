"""The journey's step about code of one's own: what it takes for shown, and what it does not."""

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import pytest

from infra.localstack import settings
from infra.localstack.jobs import Jobs
from infra.localstack.own_code import REFUSED, OwnCode
from infra.smoke.deployment import Deployment
from infra.steps import Step, StepError, wait_for
from tests.kit.sdk import DeadLetter, Job, ProblemDocument, SeedOffer

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@dataclass
class Cloud:
    """The API, as far as the step sees it; each look that is waited for takes a second."""

    at: float = 0.0
    #: What goes wrong.
    segment: str = "2026-Q1"
    no_resolver: bool = False
    size: int = 1
    never_ends: bool = False
    error: str = f"line 1: {REFUSED}"

    def wait(self, *args, **arguments):
        partial(wait_for, clock=lambda: self.at, sleep=self.sleep)(*args, **arguments)

    def sleep(self, seconds):
        self.at += seconds

    def offer_seeds(self, biz, urls, *, rule):
        assert (biz, rule, len(urls)) == ("press", "article", 2)
        if self.no_resolver:
            refused = ProblemDocument(title="no package brings one", status=400)
            return [SeedOffer(index=0, url=url, error=refused) for url in urls]
        known = {"segment": self.segment, "key": "00" * 16}
        return [
            SeedOffer(index=index, url=url, accepted=not index, **known)
            for index, url in enumerate(urls)
        ]

    def start_job(self, biz, *, rule):
        return Job(name="robots-1", state="expanding", rule=rule, size=self.size, created_at=NOW)

    def job(self, biz, name):
        state = "running" if self.never_ends else "done"
        return Job(name=name, state=state, rule="robots", size=self.size, created_at=NOW)

    def dead_letters(self, biz):
        return [DeadLetter(id="1", url="http://a/robots.txt", rule="robots", error=self.error)]


def found(cloud):
    step = Step("own code", lambda _: None)
    deployment = Deployment("localstack", cloud, {}, {})
    OwnCode(Jobs(deployment, cloud, "http://site.example/", cloud.wait)).found(step)
    return step


def test_a_seed_by_the_resolvers_and_a_page_by_the_executor_are_what_it_takes():
    assert found(Cloud()).seen[-1].startswith("one article in 2026-Q1")


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"no_resolver": True}, "no package brings one"),
        ({"segment": "2026-03-10"}, "two URLs of an article are"),
        ({"never_ends": True}, "the job robots-1 ends: not within 90 s"),
        ({"size": 2}, "the executor of robots-1, of 2 pages, did not read"),
        ({"error": "executor: 'robots_lines' is no executor here"}, "did not read"),
    ],
)
def test_what_goes_wrong_with_it_is_reported(wrong, reported):
    with pytest.raises(StepError) as caught:
        found(Cloud(**wrong))

    assert reported in str(caught.value)
    assert caught.value.do


def test_the_biz_of_the_journey_is_the_samples_for_its_own_site():
    [(path, text)] = settings.own_code("http://10.0.0.1:80/").items()

    assert path == "bizs/default/press"
    assert '"site":"http://10.0.0.1:80"' in text
    assert "press.example" not in text
