"""Submit requests, as one process of several: ``python -m benchmarks.volume.submitter NUMBER``.

It calls the router's handler object with the events of API Gateway, and does as a client should:
what is answered with 429 or 503 is sent again after Retry-After.
"""

import random
import sys
import time
from typing import Any, Final

import msgspec

from benchmarks.routing import Router, batch
from benchmarks.usage import report
from benchmarks.volume.checks import Fingerprint
from benchmarks.volume.children import begin
from benchmarks.volume.plan import BATCH

#: Answers after which a client comes back.
_LATER: Final = (429, 503)
#: A batch that is refused so often has found a fault, not a busy server.
_PATIENCE: Final = 50


class _Entry(msgspec.Struct):
    id: str | None = None


class _Accepted(msgspec.Struct):
    accepted: int
    requests: list[_Entry]


def main() -> None:
    task, number = begin(), int(sys.argv[1])
    plan, part = task.plan, task.plan.part(int(sys.argv[1]))
    choose = random.Random(number)
    router = Router(task.addresses, plan.tree())
    decoder = msgspec.json.Decoder(_Accepted)
    fingerprint, kept, refused, longest = Fingerprint(), [], 0, 0.0
    started, working = time.perf_counter(), time.process_time()
    for first in range(part.start, part.stop, BATCH):
        urls = [plan.url(at) for at in range(first, min(first + BATCH, part.stop))]
        event = batch(urls)
        for _ in range(_PATIENCE):
            asked = time.perf_counter()
            answer = router.answer(event)
            longest = max(longest, time.perf_counter() - asked)
            if answer["statusCode"] not in _LATER:
                break
            refused += 1
            time.sleep(_retry_after(answer))
        ids = _ids(answer, decoder, len(urls))
        fingerprint.add(ids)
        kept += choose.sample(ids, plan.samples_of_batch(len(ids)))
    seconds = time.perf_counter() - started
    more = {
        "fingerprint": msgspec.to_builtins(fingerprint),
        "sample": [str(an_id) for an_id in kept],
    }
    working = time.process_time() - working
    router.close()
    facts = {"working_cpu": working, "refused": refused, "longest_seconds": longest}
    sys.stdout.write(report(pages=fingerprint.count, seconds=seconds, more=more, **facts) + "\n")


def _ids(answer: dict[str, Any], decoder: msgspec.json.Decoder[_Accepted], count: int) -> list[int]:
    if answer["statusCode"] != 202:
        raise AssertionError(answer)
    found = decoder.decode(answer["body"])
    if found.accepted != count:
        raise AssertionError(f"{found.accepted} of {count} were accepted: {answer['body'][:2000]}")
    return [int(entry.id or "") for entry in found.requests]


def _retry_after(answer: dict[str, Any]) -> float:
    found = answer.get("multiValueHeaders", {}).get("Retry-After") or ["1"]
    return float(found[0])


if __name__ == "__main__":
    main()
