"""The API that X's filtered stream is set up by: its rules, and the search that fills gaps.

Every error is one of the fetching errors, with what X says in words and the seconds that it asks to
wait for; of the token nothing is said.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from yarl import URL

from crawlfleet.kernel.errors import ServerFaultError
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.http.connection import Answer, OpenStream, StatusError, StreamClient
from crawlfleet.streams.x.posts import FIELDS, problem_of
from crawlfleet.streams.x.rules import Rule, RuleChange

SECONDS: Final = 20.0
#: Pages of a list of rules, of 1,000 each.
_MOST_PAGES: Final = 50
#: What X answers of a rule that is there already; that is what was wanted.
_THERE: Final = "duplicaterules"
_STREAM: Final = "tweets/search/stream"


class XApi:
    """X's API v2 at ``base``, such as ``https://api.x.com/2``; ``headers`` has the token."""

    def __init__(
        self,
        client: StreamClient,
        base: str,
        headers: Callable[[], Awaitable[Mapping[str, str]]],
        *,
        clock: Clock,
        user_agent: str,
    ) -> None:
        self._client, self._base, self._headers = client, URL(base), headers
        self._clock = clock
        self._sent = {"User-Agent": user_agent, "Accept": "application/json"}

    async def open(self, parameters: Mapping[str, str], silent_seconds: float) -> OpenStream:
        """Connect to the stream."""
        url = (self._base / _STREAM).with_query({**FIELDS, **parameters})
        sent = {**self._sent, "Accept-Encoding": "identity"}
        try:
            return await self._client.open(url, sent, await self._headers(), silent_seconds)
        except StatusError as error:
            said = _problem_in(error.body)
            raise StatusError(error.status or 0, error.asked_seconds, said=said) from error

    async def rules(self) -> list[Rule]:
        """List the rules that stand, of others too."""
        found: list[Rule] = []
        parameters = {"max_results": "1000"}
        for _ in range(_MOST_PAGES):
            said = await self._ask("GET", f"{_STREAM}/rules", parameters)
            try:
                found += msgspec.convert(said.get("data", []), list[Rule])
            except msgspec.ValidationError as error:
                raise ServerFaultError(f"lists rules that are none: {error}") from error
            token = _token_of(said)
            if not token:
                break
            parameters["pagination_token"] = token
        return found

    async def change(self, change: RuleChange) -> list[str]:
        """Make a change of rules; return what X says of those that it did not take.

        New rules come first, so that nothing is missed meanwhile, save where there is no room.
        """
        bodies: list[dict[str, Any]] = []
        if change.add:
            bodies.append({"add": [{"value": value, "tag": tag} for value, tag in change.add]})
        if change.delete:
            bodies.append({"delete": {"ids": list(change.delete)}})
        if change.deletes_first:
            bodies.reverse()
        refused: list[str] = []
        for body in bodies:
            said = await self._ask("POST", f"{_STREAM}/rules", {}, body)
            errors = said.get("errors")
            refused += (
                problem_of({"errors": [one]}) or "a rule was not taken"
                for one in (errors if isinstance(errors, list) else ())
                if isinstance(one, dict) and not _is_there(one)
            )
        return refused

    async def search(
        self, query: str, since_id: str, page_token: str = ""
    ) -> tuple[dict[str, Any], str]:
        """Search posts since one, the newest first; return a page, and the token of the next."""
        parameters = {**FIELDS, "query": query, "since_id": since_id, "max_results": "100"}
        if page_token:
            parameters["next_token"] = page_token
        said = await self._ask("GET", "tweets/search/recent", parameters)
        return said, _token_of(said)

    async def _ask(
        self, method: str, path: str, parameters: Mapping[str, str], body: object = None
    ) -> dict[str, Any]:
        url = (self._base / path).with_query(parameters)
        sent = {**self._sent, **await self._headers()}
        answer = await self._client.ask(method, url, sent, SECONDS, body)
        # Rules that are partly taken are answered with 200, 201, or 400 where none was.
        is_partly = body is not None and answer.status == 400 and "errors" in answer.said
        if answer.status >= 300 and not is_partly:
            raise StatusError(answer.status, self._wait_of(answer), said=problem_of(answer.said))
        return answer.said

    def _wait_of(self, answer: Answer) -> float:
        """Return the seconds until X lets us ask again."""
        reset = answer.headers.get("x-rate-limit-reset", "")
        if answer.status == 429 and reset.isascii() and reset.isdigit() and len(reset) < 12:
            return max(answer.asked_seconds, int(reset) - self._clock().timestamp())
        return answer.asked_seconds


def _problem_in(body: bytes) -> str:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return ""
    return problem_of(found) if isinstance(found, dict) else ""


def _token_of(said: Mapping[str, Any]) -> str:
    meta = said.get("meta")
    token = meta.get("next_token", "") if isinstance(meta, dict) else ""
    return token if isinstance(token, str) else ""


def _is_there(error: Mapping[str, Any]) -> bool:
    kind = f"{error.get('type', '')} {error.get('title', '')}".lower()
    return _THERE in kind.replace("-", "").replace(" ", "")
