"""HTTP request -> API Gateway REST (v1) proxy event, and the function's answer -> HTTP response.

Pure: the server (``gateway.py``) reads and writes sockets, this file knows the shapes. A test
compares the keys with those of an event that was recorded at AWS.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from infra.local.aws_server import ACCOUNT

API_ID: Final = "localapi00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller: the API key as sent, its id, both empty on an open path; the peer's address."""

    api_key: str = ""
    api_key_id: str = ""
    source_ip: str = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """An HTTP request as it was received; ``raw_path`` is still percent-encoded."""

    method: str
    raw_path: str
    query: str = ""
    headers: Iterable[tuple[str, str]] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response to the client."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MalformedAnswerError(Exception):
    """The function's answer is none that API Gateway understands; it would say 502."""

    reason: str
    answer: bytes = field(repr=False, default=b"")

    def __str__(self) -> str:
        return self.reason


def proxy_event(
    request: HttpRequest,
    caller: Caller,
    *,
    resource: str,
    stage: str,
    request_id: str,
    at: datetime,
    domain: str,
) -> dict[str, Any]:
    """Build the event that API Gateway sends to the function behind ``resource``."""
    path = unquote(request.raw_path)
    headers = list(request.headers)
    query = parse_qsl(request.query, keep_blank_values=True)
    return {
        "resource": resource,
        "path": path,
        "httpMethod": request.method,
        "headers": _last(headers),
        "multiValueHeaders": _all(headers),
        "queryStringParameters": _last(query),
        "multiValueQueryStringParameters": _all(query),
        "pathParameters": _path_parameters(resource, path),
        "stageVariables": None,
        "requestContext": {
            "resourceId": resource.strip("/{}+") or "root",
            "resourcePath": resource,
            "httpMethod": request.method,
            "extendedRequestId": request_id.replace("-", "")[:16],
            "requestTime": at.astimezone(UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "path": f"/{stage}{path}",
            "accountId": ACCOUNT,
            "protocol": "HTTP/1.1",
            "stage": stage,
            "domainPrefix": API_ID,
            "requestTimeEpoch": int(at.timestamp() * 1000),
            "requestId": request_id,
            "identity": _identity(caller, headers),
            "domainName": domain,
            "deploymentId": "local",
            "apiId": API_ID,
        },
        # API Gateway passes a body on as text unless a media type is declared as binary.
        "body": request.body.decode(errors="replace") if request.body else None,
        "isBase64Encoded": False,
    }


def _identity(caller: Caller, headers: Iterable[tuple[str, str]]) -> dict[str, Any]:
    agent = next((value for name, value in headers if name.lower() == "user-agent"), None)
    identity: dict[str, Any] = {
        "cognitoIdentityPoolId": None,
        "accountId": None,
        "cognitoIdentityId": None,
        "caller": None,
        "sourceIp": caller.source_ip,
        "principalOrgId": None,
        "accessKey": None,
        "cognitoAuthenticationType": None,
        "cognitoAuthenticationProvider": None,
        "userArn": None,
        "userAgent": agent,
        "user": None,
    }
    if caller.api_key_id:
        identity |= {"apiKey": caller.api_key, "apiKeyId": caller.api_key_id}
    return identity


def _last(pairs: Iterable[tuple[str, str]]) -> dict[str, str] | None:
    """The last value of each name, or None without any: that is how API Gateway writes it."""
    return dict(pairs) or None


def _all(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]] | None:
    grouped: dict[str, list[str]] = {}
    for name, value in pairs:
        grouped.setdefault(name, []).append(value)
    return grouped or None


def _path_parameters(resource: str, path: str) -> dict[str, str] | None:
    """Return what the greedy part of the resource matched.

    >>> _path_parameters("/{proxy+}", "/v1/shop")
    {'proxy': 'v1/shop'}
    """
    if not resource.endswith("/{proxy+}"):
        return None
    return {"proxy": path[len(resource) - len("{proxy+}") :]}


def matches(resource: str, path: str) -> bool:
    """Return whether a resource path of the API takes this path.

    >>> matches("/health", "/health"), matches("/{proxy+}", "/"), matches("/{proxy+}", "/v1/shop")
    (True, False, True)
    """
    if resource.endswith("{proxy+}"):
        prefix = resource.removesuffix("{proxy+}")
        return path.startswith(prefix) and len(path) > len(prefix)
    return path == resource


def response_of(answer: bytes) -> HttpResponse:
    """Read a function's answer as API Gateway does.

    Raises:
        MalformedAnswerError: it is no object with a status code and a text body.
    """
    try:
        document = json.loads(answer)
    except ValueError:
        raise MalformedAnswerError("the answer is no JSON", answer) from None
    if not isinstance(document, dict):
        raise MalformedAnswerError("the answer is no object", answer)
    try:
        status = int(document["statusCode"])
    except (KeyError, TypeError, ValueError):
        raise MalformedAnswerError("the answer has no statusCode", answer) from None
    body = document.get("body")
    if body is None:
        body = ""
    if not isinstance(body, str):
        raise MalformedAnswerError("the answer's body is no text", answer)
    if document.get("isBase64Encoded"):
        try:
            content = base64.b64decode(body, validate=True)
        except binascii.Error:
            raise MalformedAnswerError("the answer's body is no base64", answer) from None
    else:
        content = body.encode()
    return HttpResponse(status, content, tuple(_response_headers(document)))


def _response_headers(document: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Both kinds of headers; the many-valued win where both name one."""
    many = document.get("multiValueHeaders") or {}
    for name, values in many.items():
        for value in values:
            yield name, str(value)
    lower = {name.lower() for name in many}
    for name, value in (document.get("headers") or {}).items():
        if name.lower() not in lower:
            yield name, str(value)
