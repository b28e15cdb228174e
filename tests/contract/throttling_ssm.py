"""An SSM of the suite's own that rations its calls as AWS does, over real HTTP.

An account reads 40 times a second, over GetParameter, GetParameters and GetParametersByPath
together, and writes three times a second; whoever comes too often gets a ThrottlingException. One
second's worth may come at once. Ten parameters are the most of one answer; a value has up to 4 KB,
and 8 KB in the advanced tier.
"""

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.kit.aws import aws as clients

READS_A_SECOND, WRITES_A_SECOND = 40, 3
AT_ONCE = 10
LARGEST = {"Standard": 4096, "Advanced": 8192}


class Ration:
    """So many calls a second, up to one second's worth of them at once."""

    def __init__(self, a_second):
        self._rate, self._left, self._at = a_second, float(a_second), time.monotonic()
        self._lock = threading.Lock()

    def take(self):
        with self._lock:
            now = time.monotonic()
            self._left = min(self._rate, self._left + (now - self._at) * self._rate)
            self._at = now
            if self._left < 1:
                return False
            self._left -= 1
            return True


class RefusalError(Exception):
    """An answer that is an error, by the name that SSM gives it."""


class ThrottlingSsm:
    """The server; ``calls`` and ``throttled`` count what was asked of it, by action.

    It rations nothing before ``rations`` is set: what a test begins with is there at once.
    """

    def __init__(self):
        self.parameters, self.calls, self.throttled = {}, Counter(), Counter()
        self.rations = False
        self._lock = threading.Lock()
        self._reads, self._writes = Ration(READS_A_SECOND), Ration(WRITES_A_SECOND)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def client(self, **options):
        return clients.client(
            "ssm",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
            **options,
        )

    def answer(self, action, asked):
        ration = self._reads if action.startswith("Get") else self._writes
        with self._lock:
            self.calls[action] += 1
        if self.rations and not ration.take():
            with self._lock:
                self.throttled[action] += 1
            raise RefusalError("ThrottlingException")
        with self._lock:
            return getattr(self, f"_{action}")(asked)

    def _GetParameters(self, asked):  # noqa: N802  AWS names it so
        if not 1 <= len(asked["Names"]) <= AT_ONCE:
            raise RefusalError("ValidationException")
        there = [name for name in asked["Names"] if name in self.parameters]
        missing = [name for name in asked["Names"] if name not in self.parameters]
        return {"Parameters": [self._shown(name) for name in there], "InvalidParameters": missing}

    def _GetParametersByPath(self, asked):  # noqa: N802
        names = sorted(name for name in self.parameters if name.startswith(asked["Path"] + "/"))
        first = int(asked.get("NextToken", 0))
        page = {"Parameters": [self._shown(name) for name in names[first : first + AT_ONCE]]}
        if first + AT_ONCE < len(names):
            page["NextToken"] = str(first + AT_ONCE)
        return page

    def _PutParameter(self, asked):  # noqa: N802
        value = asked["Value"]
        if len(value.encode()) > LARGEST[asked["Tier"]] or "{{" in value or not value:
            raise RefusalError("ValidationException")
        self.parameters[asked["Name"]] = value
        return {"Version": 1, "Tier": asked["Tier"]}

    def _DeleteParameters(self, asked):  # noqa: N802
        for name in asked["Names"]:
            self.parameters.pop(name, None)
        return {"DeletedParameters": asked["Names"], "InvalidParameters": []}

    def _shown(self, name):
        return {"Name": name, "Value": self.parameters[name], "Type": "String", "Version": 1}


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True
    block_on_close = False


def _handler(ssm):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            action = self.headers["X-Amz-Target"].removeprefix("AmazonSSM.")
            try:
                status, answer = 200, ssm.answer(action, asked)
            except RefusalError as refusal:
                said = "Rate exceeded" if str(refusal) == "ThrottlingException" else "no"
                status, answer = 400, {"__type": str(refusal), "message": said}
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Print nothing."""

    return Handler
