"""A spawner whose readers do what hostile pages would have them do, or lie (``manner``)."""

import ctypes
import os
import resource
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

from tests.kit.executors import Executor, SpiderExecutors
from tests.kit.extract import RuleExtractor, check_rule, try_page
from tests.kit.reading import Limits, PageReaders, defences, messages, serve, spawn

WORKER = os.getppid()  # of the spawner, which imports this


def hurt(body):
    """Do what the body says."""
    said = body.partition(b"\n")[0]
    if said == b"spin":
        while True:
            pass
    if said == b"crash":
        ctypes.string_at(0)
    if said == b"memory":
        kept = []
        while True:
            kept.append(bytearray(10_000_000))
    if said == b"hang":
        signal.pause()  # nobody wakes it: whoever waits for its answer ends it
    if said == b"print":
        sys.stdout.write("an answer of my own" * 10_000)
        sys.stdout.flush()
        os.write(1, b"and another one")
        os.write(2, b"and a last one")


class Hurting(RuleExtractor):
    """Reads pages by rules, but for hostile ones; one shows what its process has."""

    def harvest(self, rule, page, depth=0, meta=None):
        hurt(page.body)
        harvest = super().harvest(rule, page, depth, meta)
        if page.body == b"look":
            harvest.records[0]["seen"] = seen()
        return harvest


def done(harm):
    try:
        harm()
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}"
    return "done"


def seen():
    """Try what code that has taken over a reader would; tell what was done."""
    here = str(Path(__file__))
    return {
        "environment": dict(os.environ),
        "pid": os.getpid(),
        "spawner's environment": done(Path(f"/proc/{os.getppid()}/environ").read_bytes),
        "worker's environment": done(Path(f"/proc/{WORKER}/environ").read_bytes),
        "worker's memory": done(lambda: Path(f"/proc/{WORKER}/mem").open("rb").close()),
        "worker's limits": done(lambda: resource.prlimit(WORKER, resource.RLIMIT_CORE, (0, 0))),
        "signal": done(lambda: os.kill(WORKER, 0)),
        "socket": done(lambda: socket.socket().close()),
        "program": done(lambda: os.execv("/bin/true", ["true"])),
        "another process": done(lambda: os.fork() or os._exit(0)),
        "device": done(Path("/dev/zero").open),
        "new file": done(lambda: Path(f"{here}.made").touch()),
        "file cut off": done(lambda: os.truncate(here, Path(here).stat().st_size)),
        "file read": done(Path(here).read_bytes),
        "more limits": done(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (999, 999))),
    }


class Long(Executor):
    """Gives a record a line; a hostile line is done when it is come to."""

    name = "long"

    def read(self, page, context):
        for number, line in enumerate(page.body.splitlines()):
            hurt(line)
            yield {"line": line.decode(), "number": number, "of": 2**70, "half": "\ud800"}


class Known:
    def find(self, name):
        return Long


def lie(channel: socket.socket, bodies: Any, limits: Limits) -> None:
    """Answer questions as nobody asked for: as each page says."""
    channel.sendall(messages.answered(messages.Hello(0, {})))
    questions = channel.makefile("rb")
    while lengths := questions.read(messages.QUESTION.size):
        header, size, place = messages.QUESTION.unpack(lengths)
        question = messages.questions.decode(questions.read(header))
        follows = place == messages.FOLLOWS
        how = questions.read(size) if follows else bodies[place : place + size]
        right = messages.answered(messages.Failed(question.number, 0.0, "page", "no"))
        wrong = {
            b"garbage": messages.ANSWER.pack(5) + b"\xc1\xc1\xc1\xc1\xc1",
            b"too long": messages.ANSWER.pack(2**31),
            b"another": messages.answered(messages.Failed(question.number + 1, 0.0, "page", "")),
            b"of another kind": messages.answered(messages.Closed(question.number)),
            b"twice": right + right,
            b"half": right[:-1],
        }
        channel.sendall(wrong[how])
        if how == b"half":
            break
    os._exit(0)


def no_fork():
    raise BlockingIOError(11, "Resource temporarily unavailable")


def hang_fork():
    signal.pause()


def refuse(*_):
    raise PermissionError(1, "Operation not permitted")


def main(told):
    extractor = Hurting()
    executors = SpiderExecutors(Known(), extractor)
    readers = PageReaders(
        extractor=extractor,
        executors=executors,
        try_page=partial(try_page, executors),
        check=check_rule,
    )
    manner = "".join(told["manner"])
    served = partial(serve, readers=readers)
    if manner == "forks nothing":
        os.fork = no_fork
    elif manner == "is slow":
        os.fork = hang_fork
    elif manner == "starts slowly":
        signal.pause()
    elif manner == "answers nonsense":
        socket.socket(fileno=told["channel"]).sendall(b"\xff" * 1_000)
        signal.pause()
    elif manner == "dies":
        os._exit(3)
    elif manner == "lies":
        served = lie
    elif manner == "Lambda":
        defences._prctl = defences._call = refuse
    spawn(socket.socket(fileno=told["channel"]), served, lambda: None)
