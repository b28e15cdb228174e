"""Terms of jobs that a worker remembers while the home node is away."""

import pytest

from tests.kit.kernel import SteadyTime, StoreUnavailableError
from tests.kit.quotas import JobTerms, KnownTerms

JOB = ("acme", "docs", "june")
TERMS = JobTerms(user="ann")


class Home:
    """A home node that has the terms of one job, and may be away."""

    def __init__(self) -> None:
        self.now, self.is_away, self.asked = 0.0, False, 0

    def terms(self) -> KnownTerms:
        async def threaded(work, *given, **more):
            return work(*given, **more)

        return KnownTerms(self.look_up, threaded, SteadyTime(now=lambda: self.now))

    def look_up(self, *job: str) -> JobTerms | None:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailableError("mongodb", "no answer")
        return TERMS if job == JOB else None


def test_what_is_known_of_a_job_holds_while_the_home_node_is_away():
    home = Home()
    terms = home.terms()
    assert terms.now(*JOB) == TERMS
    home.is_away, home.now = True, 10_000.0

    assert terms.now(*JOB) == TERMS
    assert home.asked == 2


def test_of_a_job_that_nobody_knows_nothing_is_said_while_the_home_node_is_away():
    home = Home()
    home.is_away = True

    with pytest.raises(StoreUnavailableError):
        home.terms().now(*JOB)


def test_terms_that_were_replaced_are_looked_up_again():
    home = Home()
    terms = home.terms()
    terms.now(*JOB)
    terms.now(*JOB)
    assert home.asked == 1

    terms.note(JOB)
    home.now += 1.0
    terms.now(*JOB)

    assert home.asked == 2
