"""Lambda's API, as far as it is used: boto3 with ``AWS_ENDPOINT_URL_LAMBDA`` works unchanged.

Invocations and reserved concurrency, as AWS documents them, and two pages of our own:
``GET /_local/status`` tells what runs, ``POST /_local/clocks/{rule}`` fires a clock at once and
answers with what the function answered.
"""

import json
import uuid
from typing import Final

from aiohttp import web

from infra.local.clocks import Clocks
from infra.local.lambda_service import (
    LambdaService,
    NothingToReserveError,
    ThrottledError,
    UnknownFunctionError,
)

#: Lambda's own limits, in bytes.
MAX_WAITED_BYTES: Final = 6 * 1024 * 1024
MAX_SENT_BYTES: Final = 1024 * 1024
_RESERVED: Final = "ReservedConcurrentExecutions"


class InvokeApi:
    """The HTTP face of `LambdaService`."""

    def __init__(self, service: LambdaService, clocks: Clocks) -> None:
        """Serve these functions and clocks."""
        self._service = service
        self._clocks = clocks

    def application(self) -> web.Application:
        """The HTTP application."""
        application = web.Application(client_max_size=MAX_WAITED_BYTES + 1)
        application.router.add_post("/2015-03-31/functions/{name}/invocations", self._invoke)
        application.router.add_get("/2019-09-30/functions/{name}/concurrency", self._reserved)
        application.router.add_put("/2017-10-31/functions/{name}/concurrency", self._reserve)
        application.router.add_post("/_local/clocks/{rule}", self._fire)
        application.router.add_get("/_local/status", self._status)
        return application

    async def _invoke(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        kind = request.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            body = b" " * (MAX_WAITED_BYTES + 1)
        limit = MAX_SENT_BYTES if kind == "Event" else MAX_WAITED_BYTES
        if len(body) > limit:
            message = f"{len(body)} byte payload is too large for the {kind} invocation type"
            return _error(413, "RequestTooLargeException", f"{message} (limit {limit} bytes)")
        try:
            payload = body.decode() or "{}"
            json.loads(payload)
        except ValueError as error:
            message = f"Could not parse request body into json: {error}"
            return _error(400, "InvalidRequestContentException", message)
        try:
            return await self._run(name, kind, payload)
        except UnknownFunctionError as error:
            return _unknown(error)
        except ThrottledError:
            return _error(429, "TooManyRequestsException", "Rate Exceeded.")

    async def _run(self, name: str, kind: str, payload: str) -> web.Response:
        if kind == "Event":
            return web.Response(
                status=202, headers={"x-amzn-RequestId": self._service.send(name, payload)}
            )
        if kind == "DryRun":
            self._service.check(name)
            return web.Response(status=204)
        request_id = str(uuid.uuid4())
        result = await self._service.invoke(name, payload, request_id)
        headers = {"x-amzn-RequestId": request_id, "X-Amz-Executed-Version": "$LATEST"}
        if result.failed:
            headers["X-Amz-Function-Error"] = "Unhandled"
        return web.Response(
            body=result.payload.encode(), headers=headers, content_type="application/json"
        )

    async def _reserved(self, request: web.Request) -> web.Response:
        try:
            count = self._service.reserved(request.match_info["name"])
        except UnknownFunctionError as error:
            return _unknown(error)
        return web.json_response({} if count is None else {_RESERVED: count})

    async def _reserve(self, request: web.Request) -> web.Response:
        try:
            count = json.loads(await request.read())[_RESERVED]
        except (ValueError, TypeError, LookupError):
            count = None
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            message = f"{_RESERVED} is no number from 0 on"
            return _error(400, "InvalidParameterValueException", message)
        try:
            await self._service.reserve(request.match_info["name"], count)
        except UnknownFunctionError as error:
            return _unknown(error)
        except NothingToReserveError as error:
            message = (
                f"Specified {_RESERVED} for function decreases account's "
                f"UnreservedConcurrentExecution below its minimum value: there are {error} to give"
            )
            return _error(400, "InvalidParameterValueException", message)
        return web.json_response({_RESERVED: count})

    async def _fire(self, request: web.Request) -> web.Response:
        try:
            result = await self._clocks.fire(request.match_info["rule"])
        except KeyError:
            return _error(404, "ResourceNotFoundException", "there is no such clock")
        return web.json_response(
            {"failed": result.failed, "answer": json.loads(result.payload)},
        )

    async def _status(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "functions": {
                    name: {
                        "environments": pool.pids,
                        "running": pool.running,
                        "busy": pool.busy,
                        "limit": pool.limit,
                        "invocations": pool.invocations,
                    }
                    for name, pool in self._service.pools.items()
                }
            }
        )


def _unknown(error: UnknownFunctionError) -> web.Response:
    return _error(404, "ResourceNotFoundException", f"Function not found: {error}")


def _error(status: int, kind: str, message: str) -> web.Response:
    """Answer as Lambda does, so that boto3 raises the exception of that name."""
    return web.json_response(
        {"Type": "User", "Message": message, "message": message},
        status=status,
        headers={"x-amzn-ErrorType": kind},
    )
