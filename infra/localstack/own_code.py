"""The journey's step about code of one's own: every function finds what `extra_packages` names."""

from typing import Final

from crawlfleet.kernel import names
from infra.localstack.jobs import Jobs
from infra.smoke.deployment import log_group
from infra.steps import Step, StepError

#: The biz of samplesconfig/own-code, whose package the stage carries.
BIZ: Final = "press"
#: The site has no robots.txt: it answers with a page, which the executor refuses in these words.
REFUSED: Final = "is no 'key: value'"


class OwnCode:
    """Seeds by a key and a segment, and a job by an executor, all of them of a package."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs, self._client = jobs, jobs.client

    def found(self, step: Step) -> None:
        """Show that the router has the resolvers, and that it and consumers have the executor."""
        articles = [f"{self._jobs.site}/{title}-7.html" for title in ("old", "new")]
        first, second = self._client.offer_seeds(BIZ, articles, rule="article")
        if first.error or first.key != second.key or "-Q" not in (first.segment or ""):
            raise StepError(
                f"two URLs of an article are {first} and {second}",
                "The router resolves keys and segments by the package of the stage.",
                log_group(self._jobs.deployment.stage, names.ROUTER),
            )
        job = self._client.start_job(BIZ, rule="robots")
        self._jobs.ended(BIZ, job.name)
        letters = [one for one in self._client.dead_letters(BIZ) if one.rule == "robots"]
        if job.size != 1 or not any(REFUSED in (one.error or "") for one in letters):
            raise StepError(
                f"the executor of {job.name}, of {job.size} pages, did not read: {letters}",
                f"`crawlfleet dead list {BIZ}` says what became of its page.",
                self._jobs.consumers,
            )
        step.saw(f"one article in {first.segment}; its executor began by itself, and read")
