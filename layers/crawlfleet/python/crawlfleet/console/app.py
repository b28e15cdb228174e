"""The console's answers: its files, signing in and out, and the key of a call that has a session.

Four paths, beside the API: ``GET /console`` and what is below are files. ``POST /console/session``
comes with an API key, which API Gateway has checked and counted, and leaves a cookie. ``GET`` says
whose session it is, ``DELETE`` ends it. ``/console/api/...`` is the API again: API Gateway asks
:meth:`Console.authorize` who calls, and passes the call on to the API with the key of the session,
so that the tenant's usage plan counts it as any other.

Against calls that other sites have a browser make, the cookie is ``SameSite=Strict`` and each call
has a header that no form can send and no other origin may.
"""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import operates, tenant_of
from crawlfleet.console.sessions import Session, Sessions
from crawlfleet.console.site import SAFE, Site
from crawlfleet.kernel.errors import CrawlfleetError, UnknownTenantError

Event = Mapping[str, Any]
#: The header that a call of the page has, and its value.
HEADER: Final = "x-crawlfleet-console"
_SENT: Final = "1"
_COOKIES: Final = re.compile(r"\s*([^=;\s]+)=([^;\s]*)")
_NOT_BUILT: Final = "the console was not built for this stage: `make console` builds it"


class Platform(Protocol):
    """The stage, as far as the console asks it."""

    def tree(self) -> Tree:
        """Return the configuration in force."""
        ...

    def sessions(self) -> Sessions:
        """Open the sessions."""
        ...

    def now(self) -> datetime:
        """Return the time."""
        ...


class Console:
    """The console of a stage.

    Args:
        stage: The stage's name: stages of one API share an origin, and each has its own cookie.
        default_key_id: The id of the default tenant's key.
        platform: What it asks of the stage, opened when it is first asked.
        folder: Where the built files are; None where there are none.
        log: Called with every fault that is not the caller's.
    """

    def __init__(
        self,
        platform: Platform,
        *,
        stage: str,
        default_key_id: str,
        folder: Path | None,
        log: Callable[[Exception], None],
    ) -> None:
        self._platform, self._log = platform, log
        self._stage, self._default_key_id = stage, default_key_id
        self._folder = folder

    def answer(self, event: Event) -> dict[str, Any]:
        """Answer a proxy event of the console's paths; never raises."""
        try:
            path, method = str(event.get("path")), event.get("httpMethod")
            if path.rstrip("/") != "/console/session":
                return self._file(path, _header(event, "if-none-match"))
            if _header(event, HEADER) != _SENT:
                return _problem(403, f"the header {HEADER} is missing: {_SENT}")
            answers = {"POST": self._sign_in, "GET": self._show, "DELETE": self._sign_out}
            if method not in answers:
                return _problem(405, f"there is no {method} of a session")
            return answers[method](event)
        except UnknownTenantError as error:
            return _problem(403, str(error))
        except CrawlfleetError as error:
            self._log(error)
            return _problem(503, "a part of the platform does not answer")

    def authorize(self, event: Event) -> dict[str, Any]:
        """Answer an authorizer's event: the key of the session, or a refusal; never raises.

        A refusal is API Gateway's 401. The key goes to API Gateway alone: neither its access log
        nor ours has what an authorizer says.
        """
        found = None
        try:
            if _header(event, HEADER) == _SENT and _is_own(event):
                found = self._platform.sessions().find(self._cookie(event), self._platform.now())
        except CrawlfleetError as error:
            self._log(error)
        effect, principal = ("Deny", "nobody") if found is None else ("Allow", found[1].tenant)
        statement = {
            "Action": "execute-api:Invoke",
            "Effect": effect,
            "Resource": event.get("methodArn"),
        }
        answer: dict[str, Any] = {
            "principalId": principal,
            "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        }
        return answer if found is None else {**answer, "context": {"key": found[0]}}

    @cached_property
    def _site(self) -> Site:
        return Site(self._folder)

    def _file(self, path: str, known: str) -> dict[str, Any]:
        file = self._site.file(path)
        if file is None:
            is_page = path.rstrip("/") == "/console"
            return _problem(*((503, _NOT_BUILT) if is_page else (404, "there is no such file")))
        if known == file.etag:
            return _answer(304, file.headers, "")
        return _answer(200, file.headers, file.text)

    def _sign_in(self, event: Event) -> dict[str, Any]:
        identity = (event.get("requestContext") or {}).get("identity") or {}
        key, now, tree = _header(event, "x-api-key"), self._platform.now(), self._platform.tree()
        tenant = tenant_of(tree, identity.get("apiKeyId"), self._default_key_id, now)
        sessions = self._platform.sessions()
        sessions.end(self._cookie(event))  # whoever signs in anew leaves no session behind
        cookie, session = sessions.begin(key, tenant, now, operator=operates(tree, tenant))
        seconds = round((session.expires_at - now).total_seconds())
        return _told(201, self._shown(session), self._set(event, cookie, seconds))

    def _show(self, event: Event) -> dict[str, Any]:
        found = self._platform.sessions().find(self._cookie(event), self._platform.now())
        if found is None:
            return _problem(401, "nobody is signed in")
        return _told(200, self._shown(found[1]))

    def _sign_out(self, event: Event) -> dict[str, Any]:
        self._platform.sessions().end(self._cookie(event))
        return _answer(204, {**SAFE, "Set-Cookie": self._set(event, "", 0)}, "")

    def _shown(self, session: Session) -> dict[str, Any]:
        return {
            "tenant": session.tenant,
            "operator": session.operator,
            "stage": self._stage,
            "expires_at": session.expires_at,
        }

    def _cookie(self, event: Event) -> str:
        cookies: dict[str, str] = dict(_COOKIES.findall(_header(event, "cookie")))
        return cookies.get(self._name(event), "")

    def _name(self, event: Event) -> str:
        """Return the cookie's name: browsers take ``__Host-`` from https alone.

        On one machine clouds are told apart by their ports, which cookies do not know.
        """
        if _is_https(event):
            return f"__Host-crawlfleet-{self._stage}"
        return f"crawlfleet-{self._stage}-{_header(event, 'host').rpartition(':')[2]}"

    def _set(self, event: Event, value: str, seconds: int) -> str:
        secure = "; Secure" if _is_https(event) else ""
        return (
            f"{self._name(event)}={value}; Path=/; Max-Age={seconds};"
            f" HttpOnly; SameSite=Strict{secure}"
        )


def _is_own(event: Event) -> bool:
    """Tell whether the page itself calls, where the browser says so."""
    return _header(event, "sec-fetch-site") in {"", "same-origin"}


def _is_https(event: Event) -> bool:
    return _header(event, "x-forwarded-proto") == "https"


def _header(event: Event, name: str) -> str:
    for sent, value in (event.get("headers") or {}).items():
        if sent.lower() == name:
            return str(value)
    return ""


def _answer(status: int, headers: Mapping[str, str], body: str) -> dict[str, Any]:
    return {
        "statusCode": status,
        "headers": dict(headers),
        "body": body,
        "isBase64Encoded": False,
    }


def _told(status: int, said: Mapping[str, Any], cookie: str = "") -> dict[str, Any]:
    headers = {**SAFE, "Content-Type": "application/json", "Cache-Control": "no-store"}
    if cookie:
        headers["Set-Cookie"] = cookie
    return _answer(status, headers, msgspec.json.encode(said).decode())


def _problem(status: int, detail: str) -> dict[str, Any]:
    headers = {**SAFE, "Content-Type": "application/problem+json", "Cache-Control": "no-store"}
    body = msgspec.json.encode({"title": detail, "status": status, "detail": detail})
    return _answer(status, headers, body.decode())
