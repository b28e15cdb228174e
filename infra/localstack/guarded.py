"""The journey's step about a site that wants a token, and about states of a biz's own.

The token is in Secrets Manager and reaches the site in a header; no read of the API, nothing in
MongoDB and no log shows it (D13). Then a page that is done is reviewed (A1).
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import msgspec
import pymongo
from bson.raw_bson import RawBSONDocument

from crawlfleet.kernel import names
from crawlfleet.kernel.errors import ConflictError
from crawlfleet.sdk import Client
from infra.aws_access import asked
from infra.local.parts import LOOPBACK
from infra.localstack import settings
from infra.smoke import pages
from infra.smoke.deployment import Deployment, log_group
from infra.steps import Step, StepError

#: Its pages' addresses have this, so that what is searched for the token is known to be searched.
MARK: Final = "guarded-page"
_PAGES: Final = 3
_SECONDS: Final = 120.0


class GuardedSite:
    """A site whose pages are for those alone who send the token; it shows it to them.

    Attributes:
        url: Its address, as functions see it.
        token: What it wants.
        refused: How many pages were asked for without it.
        served: The pages that were asked for with it.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self.refused = 0
        self.served: list[str] = []


@contextmanager
def guarded_site(beside: str) -> Iterator[GuardedSite]:
    """Serve it at the host of another site that functions see."""
    host = urlsplit(beside).hostname or LOOPBACK
    token = f"Bearer {secrets.token_hex(16)}"

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer a page, or 401."""
            knows = self.headers.get(settings.GUARDED_HEADER) == token
            if self.path == "/robots.txt":
                status, text = 404, ""
            elif knows:
                status, text = 200, f"<title>{self.path} for {token}</title>"
                site.served.append(self.path)
            else:
                status, text = 401, ""
                site.refused += 1
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer((_listening(host), 0), Pages) as server:
        server.daemon_threads = True
        site = GuardedSite(f"http://{host}:{server.server_port}", token)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join(10)


def _listening(host: str) -> str:
    """Return where to listen: a name is one of Docker's own, and leads to loopback."""
    try:
        return str(ip_address(host))
    except ValueError:
        return LOOPBACK


def keep_token(deployment: Deployment, token: str) -> None:
    """Put the token where the biz's document says that it is."""
    name = names.tenant_secret(deployment.stage, names.DEFAULT_TENANT, settings.GUARDED_SECRET)
    manager = deployment.access.client("secretsmanager")
    asked(f"keeping {name}", manager.create_secret, Name=name, SecretString=token)


def drop_token(deployment: Deployment) -> None:
    """Remove it, for good."""
    name = names.tenant_secret(deployment.stage, names.DEFAULT_TENANT, settings.GUARDED_SECRET)
    manager = deployment.access.client("secretsmanager")
    gone = {"SecretId": name, "ForceDeleteWithoutRecovery": True}
    asked(f"removing {name}", manager.delete_secret, **gone)


def stored(uri: str) -> Iterator[bytes]:
    """Read every document that MongoDB has, as it has it."""
    with pymongo.MongoClient[RawBSONDocument](uri, document_class=RawBSONDocument) as client:
        for database in client.list_database_names():
            if database in {"admin", "config", "local"}:
                continue
            for collection in client[database].list_collection_names():
                for document in client[database][collection].find():
                    yield bytes(document.raw)


def logged(deployment: Deployment) -> Iterator[bytes]:
    """Read every line that the functions have logged."""
    for function in names.FUNCTIONS:
        group = log_group(deployment.stage, function)
        for event in deployment.access.all(
            "logs", "filter_log_events", "events", logGroupName=group
        ):
            yield str(event["message"]).encode()


class Guarded:
    """Pages of a site that wants a token.

    Args:
        deployment: Where they are.
        client: The API's.
        site: The site.
        documents: Reads all that MongoDB has.
        lines: Reads all that the functions have logged.
    """

    def __init__(
        self,
        deployment: Deployment,
        client: Client,
        site: GuardedSite,
        *,
        documents: Callable[[], Iterator[bytes]],
        lines: Callable[[], Iterator[bytes]],
    ) -> None:
        self._deployment = deployment
        self._client = client
        self._site = site
        self._places = {
            "an answer of the API": self._read,
            "MongoDB": documents,
            "a log": lines,
        }
        self._ids: list[str] = []

    def crawled(self, step: Step) -> None:
        """Show that the site has seen the token, and that nobody else does."""
        urls = [f"{self._site.url}/{MARK}-{number}" for number in range(_PAGES)]
        context = pages.FetchContext(biz=settings.GUARDED_BIZ, urls=urls, rule=settings.RULE)
        self._ids = pages.submit(self._deployment, self._client, context)
        pages.wait_done(self._deployment, self._client, context, self._ids, _SECONDS, step)
        if len(set(self._site.served)) != _PAGES or self._site.refused:
            raise StepError(
                f"the site was asked for {self._site.served} with the token and for"
                f" {self._site.refused} pages without it",
                "The biz's document has the header; workers read the secret.",
                log_group(self._deployment.stage, names.CONSUMER),
            )
        # Its last word alone is the secret part.
        secret, mark = self._site.token.split()[-1].encode(), MARK.encode()
        for place, read in self._places.items():
            found = list(read())
            if any(secret in one for one in found):
                raise StepError(
                    f"{place} shows the token",
                    "docs/guides/secrets.md says where it may be: nowhere.",
                )
            if not found or (place != "a log" and not any(mark in one for one in found)):
                raise StepError(
                    f"{place} was searched for the token, and has nothing of its pages",
                    "See what the step reads.",
                )
        step.saw(f"{_PAGES} pages with the token; API, MongoDB and logs do not show it")

    def reviewed(self, step: Step) -> None:
        """Show that a page becomes what the biz has made up, once, and that the ledger has it."""
        biz, (one, other, *_) = settings.GUARDED_BIZ, self._ids
        states = {"from_state": "done", "to_state": settings.REVIEWED}
        changed = self._client.transition(biz, one, **states, why="by the journey")
        again = list(self._client.transition_each(biz, [one, other], **states))
        listed = {status.id for status in self._client.requests(biz, state=settings.REVIEWED)}
        ledger = self._client.ledger(biz)
        explained = self._client.explain(biz, one)
        seen = (
            changed.timeline[-1].why,
            [(answer.state, answer.repeated) for answer in again],
            listed == {one, other},
            (ledger.done, ledger.others, ledger.balanced),
            explained.steps[-1].state,
        )
        wanted = (
            "by the journey",
            [(settings.REVIEWED, True), (settings.REVIEWED, False)],
            True,
            (_PAGES - 2, 2, True),
            settings.REVIEWED,
        )
        if seen != wanted:
            raise StepError(
                f"of two pages that are {settings.REVIEWED} is seen {seen}, not {wanted}",
                f"`crawlfleet explain {biz} {one}` says what they have become.",
                log_group(self._deployment.stage, names.ROUTER),
            )
        try:
            self._client.transition(biz, one, from_state="pending", to_state="held")
        except ConflictError as error:
            step.saw(f"2 of {_PAGES} {settings.REVIEWED}, once; {error}")
        else:
            raise StepError(
                f"a page that is {settings.REVIEWED} was held as if it were pending",
                "A transition is conditional on the state that is expected.",
                log_group(self._deployment.stage, names.ROUTER),
            )

    def _read(self) -> Iterator[bytes]:
        """Ask the API all that it says of these pages."""
        client, biz = self._client, settings.GUARDED_BIZ
        answers: list[object] = [
            *(client.get(biz, one) for one in self._ids),
            *(client.explain(biz, one) for one in self._ids),
            *client.requests(biz),
            *client.records(biz),
            *client.dead_letters(biz),
            client.stats(biz),
        ]
        yield from map(msgspec.json.encode, answers)
