"""An executor: the lines of a robots.txt file as records, and its sitemaps as links."""

from collections.abc import Iterator

from crawlfleet.errors import ExtractError
from crawlfleet.executors import Context, Executor, Found, Parameters
from crawlfleet.kernel.page import Page


class RobotsParameters(Parameters, frozen=True, kw_only=True):
    """``agent`` is whose lines are read, ``follow`` the rule that reads the sitemaps."""

    agent: str
    site: str | None = None
    follow: str | None = None


class RobotsLines(Executor[RobotsParameters]):
    """Reads a robots.txt file."""

    name = "robots_lines"
    Parameters = RobotsParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """Read the lines that are for the agent."""
        agent = None
        for number, line in enumerate(page.body.decode("utf-8", "replace").splitlines(), 1):
            key, colon, value = line.partition("#")[0].partition(":")
            key, value = key.strip().lower(), value.strip()
            if key and not colon:
                raise ExtractError(f"line {number}", "is no 'key: value'")
            if key == "user-agent":
                agent = value
            elif key == "sitemap" and self.parameters.follow:
                if link := context.link(value, self.parameters.follow):
                    yield link
            elif key in ("allow", "disallow") and agent == self.parameters.agent:
                yield {"rule": key, "path": value, "line": number}

    @classmethod
    def starts(cls, parameters: RobotsParameters) -> tuple[str, ...]:
        """Begin a job that names no URLs with the site's own file."""
        return () if parameters.site is None else (f"{parameters.site.rstrip('/')}/robots.txt",)
