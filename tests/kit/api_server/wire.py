"""Calls that a server of the API reads, answers that it writes, and faults in their place."""

import json
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Call:
    """One call that arrived."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes


@dataclass
class Fault:
    """A fault that one call gets for an answer; ``carry_out``: the effect takes place."""

    status: int = 0
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    carry_out: bool = False
    hang: bool = False
    cut: bool = False
    drip: bool = False
    chunks: int = 0
    method: str | None = None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    #: One packet for headers and body; two would wait for the reader's delayed acknowledgement.
    wbufsize = 65_536
    #: The :class:`~tests.kit.api_server.server.ApiServer` that answers.
    api: Any

    def log_message(self, *_: Any) -> None:
        pass

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("content-length") or 0)
        call = Call(
            self.command,
            parts.path,
            dict(parse_qsl(parts.query)),
            {name.lower(): value for name, value in self.headers.items()},
            self.rfile.read(length),
        )
        self.api.calls.append(call)
        if self.api.faults and self.api.faults[0].method in {None, self.command}:
            self.misbehave(call, self.api.faults.popleft())
            return
        status, document = self.api.answer(call)
        body = b"" if document is None else json.dumps(document).encode()
        is_problem = status >= 400 and "title" in document
        kind = "application/problem+json" if is_problem else "application/json"
        self.api.hold(call, status, kind, body)
        self.say(status, body, {"content-type": kind})

    def misbehave(self, call: Call, fault: Fault) -> None:
        if fault.carry_out:
            self.api.answer(call)
        if fault.hang:
            self.api.released.wait(60)
            self.close_connection = True
        elif fault.drip:
            self.send_response(200)
            self.send_header("content-length", "1000000")
            self.end_headers()
            while not self.api.released.is_set():
                try:
                    self.wfile.write(b" ")
                    self.wfile.flush()
                except OSError:
                    return
        elif fault.cut:
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b'{"id": "1"')
            self.close_connection = True
        elif fault.chunks:
            self.send_response(fault.status)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for start in range(0, len(fault.body), fault.chunks):
                part = fault.body[start : start + fault.chunks]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        elif fault.status:
            self.say(fault.status, fault.body, fault.headers)
        else:
            self.close_connection = True  # not a word

    def say(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


for _method in ("GET", "POST", "PUT", "DELETE"):
    setattr(Handler, f"do_{_method}", Handler.handle_any)
