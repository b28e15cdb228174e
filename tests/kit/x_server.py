"""X's filtered stream as its documentation has it: rules, the stream, search; with its limits.

It was written from the documentation of the API, with the errors that are described there, and of
others' complaints; it is not X.
"""

import asyncio
import itertools
import json
from collections import deque
from contextlib import suppress

from aiohttp import web

from crawlfleet.kernel.errors import InvalidRequestError
from infra.local.parts import LOOPBACK
from tests.kit.streams import Item, parse

TOKEN = "a-token"
#: The id of the first post; milliseconds are its upper bits.
FIRST = 1_995_000_000_000_000_000
#: Between two posts.
STEP = 1_000 << 22


class XServer:
    """A server of X's API v2; an asynchronous context manager.

    Attributes:
        rules: By id, what stands.
        most_rules: The plan's number of rules; most_characters of each.
        script: Behaviours of the next connections to the stream, one each.
        changes: Bodies of the changes that were asked for.
        searches: Queries that were asked.
        refuse_changes: A status that changes of rules are answered with.
        open: Connections of the stream that stand; ``most_open`` of them are let in.
    """

    def __init__(self, most_rules=1_000, most_characters=1_024, keep_alive_seconds=0.05):
        self.most_rules, self.most_characters = most_rules, most_characters
        self.keep_alive_seconds = keep_alive_seconds
        self.rules, self.posts = {}, []
        self.script, self.changes, self.searches, self.asked = deque(), [], [], []
        self.refuse_changes = self.refuse_search = 0
        self.open = self.connections = 0
        self.most_open = 1
        self.token = TOKEN
        self._ids = itertools.count(1)
        self._ending = False

    async def __aenter__(self):
        self._more = asyncio.Condition()
        application = web.Application()
        application.router.add_get("/2/tweets/search/stream/rules", self._listed)
        application.router.add_post("/2/tweets/search/stream/rules", self._changed)
        application.router.add_get("/2/tweets/search/stream", self._connected)
        application.router.add_get("/2/tweets/search/recent", self._searched)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        self.base = f"http://{LOOPBACK}:{self._runner.addresses[0][1]}/2"
        return self

    async def __aexit__(self, *_):
        self._ending = True
        await self.publish()
        await self._runner.cleanup()

    async def publish(self, *texts, **more):
        """Write posts; who is connected gets those that a rule takes."""
        for text in texts:
            post = {"id": str(FIRST + len(self.posts) * STEP), "text": text, **more}
            self.posts.append(post)
        async with self._more:
            self._more.notify_all()

    async def say(self, found):
        """Send an object to who is connected, whatever the rules."""
        self.posts.append({"raw": found})
        await self.publish()

    def values(self):
        return sorted(rule["value"] for rule in self.rules.values())

    def _is_known(self, request):
        return request.headers.get("Authorization") == f"Bearer {self.token}"

    async def _listed(self, request):
        if not self._is_known(request):
            return web.json_response({"title": "Unauthorized", "status": 401}, status=401)
        size = int(request.query.get("max_results", "1000"))
        start = int(request.query.get("pagination_token", "0"))
        every = list(self.rules.values())
        meta = {"sent": "now", "result_count": len(every)}
        if start + size < len(every):
            meta["next_token"] = str(start + size)
        answer = {"meta": meta}
        if every:
            answer["data"] = every[start : start + size]
        return web.json_response(answer)

    async def _changed(self, request):
        if not self._is_known(request):
            return web.json_response({"title": "Unauthorized"}, status=401)
        if self.refuse_changes:
            headers = {"x-rate-limit-remaining": "0"}
            problem = {"title": "Too Many Requests", "detail": "Too Many Requests"}
            return web.json_response(problem, status=self.refuse_changes, headers=headers)
        body = await request.json()
        self.changes.append(body)
        if len(body) != 1:
            return web.json_response({"errors": [{"title": "Invalid Request"}]}, status=400)
        if "delete" in body:
            for one in body["delete"]["ids"]:
                self.rules.pop(one, None)
            return web.json_response({"meta": {"summary": {"deleted": 1, "not_deleted": 0}}})
        created, errors = [], []
        for one in body["add"]:
            if problem := self._problem(one):
                errors.append({**problem, "value": one["value"], "id": "0"})
                continue
            rule = {"id": str(next(self._ids)), **one}
            self.rules[rule["id"]] = rule
            created.append(rule)
        answer = {"meta": {"summary": {"created": len(created), "not_created": len(errors)}}}
        if created:
            answer["data"] = created
        if errors:
            answer["errors"] = errors
        return web.json_response(answer, status=201 if created else 400)

    def _problem(self, one):
        if any(rule["value"] == one["value"] for rule in self.rules.values()):
            kind = "https://api.twitter.com/2/problems/duplicate-rules"
            return {"title": "DuplicateRule", "type": kind}
        if len(self.rules) >= self.most_rules:
            kind = "https://api.twitter.com/2/problems/rule-cap"
            return {"title": "RulesCapExceeded", "type": kind}
        kind = "https://api.twitter.com/2/problems/invalid-rules"
        if len(one["value"]) > self.most_characters:
            return {"title": "UnprocessableEntity", "type": kind, "details": ["too long"]}
        try:
            parse(one["value"])
        except InvalidRequestError as error:
            return {"title": "UnprocessableEntity", "type": kind, "details": [str(error)]}
        return None

    def _matching(self, post):
        item = Item(text=post["text"], language=post.get("lang", ""))
        return [
            {"id": rule["id"], "tag": rule.get("tag", "")}
            for rule in self.rules.values()
            if parse(rule["value"]).takes(item)
        ]

    async def _connected(self, request):
        self.connections += 1
        self.asked.append(dict(request.query))
        if not self._is_known(request):
            return web.json_response({"title": "Unauthorized", "status": 401}, status=401)
        if not self.rules:
            problem = {"title": "ConnectionException", "connection_issue": "RulesMustBeDefined"}
            return web.json_response(problem, status=409)
        if self.open >= self.most_open:
            problem = {
                "title": "ConnectionException",
                "detail": "This stream is currently at the maximum allowed connection limit.",
                "connection_issue": "TooManyConnections",
            }
            return web.json_response(problem, status=429)
        self.open += 1
        try:
            if self.script:
                return await self.script.popleft()(request)
            return await self._stream(request)
        finally:
            self.open -= 1

    async def _stream(self, request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        place = len(self.posts)  # who is answered has what is written from now on
        await response.prepare(request)
        with suppress(ConnectionError):
            while not self._ending:
                while place < len(self.posts):
                    post = self.posts[place]
                    place += 1
                    found = post.get("raw")
                    if found is None and (rules := self._matching(post)):
                        found = {"data": post, "matching_rules": rules}
                    if found is not None:
                        await response.write(json.dumps(found).encode() + b"\r\n")
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.keep_alive_seconds), self._more:
                        await self._more.wait()
                        continue
                await response.write(b"\r\n")
        return response

    async def _searched(self, request):
        query, since = request.query["query"], int(request.query["since_id"])
        self.searches.append(query)
        if self.refuse_search:
            return web.json_response({"title": "Too Many"}, status=self.refuse_search)
        if len(query) > 512:
            return web.json_response({"errors": [{"title": "Invalid Request"}]}, status=400)
        wanted = parse(query)
        found = [
            post
            for post in reversed(self.posts)
            if "text" in post
            and int(post["id"]) > since
            and wanted.takes(Item(text=post["text"], language=post.get("lang", "")))
        ]
        start = int(request.query.get("next_token", "0"))
        page = found[start : start + 10]
        meta = {"result_count": len(page)}
        if start + 10 < len(found):
            meta["next_token"] = str(start + 10)
        return web.json_response({"data": page, "meta": meta} if page else {"meta": meta})
