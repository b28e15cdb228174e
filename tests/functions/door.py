"""The API on loopback: the local cloud's gateway, and behind it the router's real handler.

Every answer of the router's is held to the OpenAPI document, and every call that was carried out.
"""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from aiohttp import web

from infra.fleet import FLEET
from infra.local.gateway import Gateway
from infra.local.keys import ApiKeys
from infra.local.lambda_process import Result
from infra.local.parts import LOOPBACK
from tests.functions.http import Answer
from tests.functions.open_api import Document
from tests.kit.console import is_authorizers, is_consoles
from tests.kit.kernel import names
from tests.kit.worlds.functions import KEYS, STAGE, World


class Functions:
    """The function environment that the gateway invokes, one event at a time."""

    def __init__(self, world: World) -> None:
        self.drifts: list[str] = []
        self._world = world
        self._document = Document.of(world)
        self._environment = ThreadPoolExecutor(1)

    async def invoke(self, name: str, payload: str) -> Result:
        """Have the handler answer, in a thread of its own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._environment, self._invoke, name, payload)

    def _invoke(self, name: str, payload: str) -> Result:
        event = json.loads(payload)
        answer = self._world.call(name, event)
        if is_consoles(event) or is_authorizers(event):
            return Result(json.dumps(answer))  # no part of the API's document
        try:
            self._hold(event, Answer(answer))
        except AssertionError as error:
            self.drifts.append(f"{event['httpMethod']} {event['path']}: {error}")
        return Result(json.dumps(answer))

    def _hold(self, event: dict[str, Any], answer: Answer) -> None:
        call = event["httpMethod"], event["path"]
        self._document.check(*call, answer)
        if answer.status < 300:
            query = event["queryStringParameters"] or {}
            self._document.hold_call(*call, query, (event["body"] or "").encode())

    def close(self) -> None:
        """End the environment's thread."""
        self._environment.shutdown()


class Door:
    """The API's URL, the tenants' keys by their first names, and a key that is no tenant's."""

    def __init__(self, url: str, keys: dict[str, str], functions: Functions) -> None:
        self.url = url
        self.keys = keys
        self.drifts = functions.drifts


@contextmanager
def a_door(world: World, folder: Path) -> Iterator[Door]:
    """The API of a world; the file of its keys is in the folder."""
    keys = ApiKeys(folder / "keys.json")
    made = {first: keys.add(key_id) for first, key_id in KEYS.items()}
    made["nobody"] = keys.add("key-nobody")
    functions = Functions(world)
    named = {name: name for name in names.FUNCTIONS} | {names.OPERATORS: names.ROUTER}
    gateway = Gateway(FLEET.routes, named, functions, keys, STAGE)  # type: ignore[arg-type]
    runner = web.AppRunner(gateway.application(), access_log=None)

    async def opened() -> int:
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, 0).start()
        port: int = runner.addresses[0][1]
        return port

    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        port = asyncio.run_coroutine_threadsafe(opened(), loop).result(60)
        yield Door(f"http://{LOOPBACK}:{port}", made, functions)
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        functions.close()
