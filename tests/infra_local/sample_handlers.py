"""Handlers that the local Lambda runs in its tests, each showing one behaviour."""

import os
from pathlib import Path

_seen = 0


def echo(event, context):
    """Answer with what Lambda told."""
    print("echo was here")  # noqa: T201  its log is looked at
    return {
        "event": event,
        "function_name": context.function_name,
        "request_id": context.aws_request_id,
        "memory": context.memory_limit_in_mb,
        "remaining": context.get_remaining_time_in_millis(),
        "log_group": context.log_group_name,
        "arn": context.invoked_function_arn,
        "variable": os.environ.get("SAMPLE"),
    }


def count(_event, _context):
    """Answer with the process and how many events it has had."""
    global _seen  # noqa: PLW0603  an environment keeps what its module holds
    _seen += 1
    return {"pid": os.getpid(), "seen": _seen}


def fail(event, _context):
    """Leave a line for each try, then raise."""
    with Path(event["tries"]).open("a") as file:
        file.write("try\n")
    raise ValueError("no such page")


def leave(event, _context):
    """End the whole process, unless told not to."""
    if event.get("stay"):
        return os.getpid()
    os._exit(3)


def hold(event, _context):
    """Say that it has begun, then wait until the pipe is opened for writing, and closed."""
    Path(event["begun"]).write_text("begun")
    return Path(event["pipe"]).read_text()


def hang(_event, _context):
    """Never end."""
    import threading

    threading.Event().wait()


def unserialisable(_event, _context):
    """Answer with something that is no JSON."""
    return {"when": object()}


def proxy(event, _context):
    """Answer an API Gateway event with the event itself."""
    import json

    return {
        "statusCode": 201,
        "headers": {"X-One": "1"},
        "multiValueHeaders": {"X-Two": ["a", "b"]},
        "body": json.dumps(event),
    }


def malformed(_event, _context):
    """Answer with what API Gateway does not take."""
    return {"hello": "world"}


def swell(event, _context):
    """Take so many megabytes, and keep them for as long as somebody holds the pipe."""
    taken = bytearray(event["mb"] * 1024 * 1024)
    for at in range(0, len(taken), 4096):
        taken[at] = 1
    if "pipe" in event:
        Path(event["pipe"]).read_text()
    return len(taken)
