"""What makes two submissions one, and for how long that is known (SPEC.md D13)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

import msgspec

from crawlfleet.errors import CrawlfleetError, KeyReusedError
from crawlfleet.model.biz import Biz
from crawlfleet.model.keyed import Keyed, KeyKind, KeyName
from crawlfleet.model.submission import Submission

#: The least that a key is kept: requests of a biz may live for a minute, a client's retries longer.
SHORTEST_LIFE: Final = timedelta(days=1)


def digest_of_call(submissions: Sequence[Submission | CrawlfleetError]) -> bytes:
    """A digest of a call as it was given; an entry that could not be read counts as its mistake.

    >>> one = Submission(url="https://site.example/")
    >>> digest_of_call([one]) == digest_of_call([Submission(url="https://site.example/")])
    True
    >>> digest_of_call([one, one]) == digest_of_call([one])
    False
    """
    digest = sha256()
    for submission in submissions:
        text = (
            b"!" + str(submission).encode("utf-8", "backslashreplace")
            if isinstance(submission, CrawlfleetError)
            else _text_of(submission)
        )
        digest.update(len(text).to_bytes(8, "big") + text)
    return digest.digest()


def digest_of_entry(submission: Submission) -> bytes:
    """A digest of an entry as it was given; its ``client_id``, the key, is no part of it."""
    return sha256(_text_of(msgspec.structs.replace(submission, client_id=None))).digest()


def _text_of(submission: Submission) -> bytes:
    return msgspec.json.encode(submission, order="deterministic")


def kept_until(biz: Biz, now: datetime) -> datetime:
    """How long a key is kept: at least as long as its requests are."""
    return now + max(timedelta(seconds=biz.ttl_seconds + biz.expiry_grace_seconds), SHORTEST_LIFE)


def is_old(keyed: Keyed, biz: Biz, now: datetime) -> bool:
    """Whether requests that are only now stored under this key would have little time left.

    They have the ``queued_at`` of the key, and live from then on.
    """
    return now - keyed.queued_at >= timedelta(seconds=biz.ttl_seconds) / 2


def reused(name: KeyName, field: str = "") -> KeyReusedError:
    """The error of a key that comes with something else than it was first given for."""
    return KeyReusedError(
        f"{_called(name, field)} stands for another submission: send again what it was first given "
        "for, or choose a new one"
    )


def outlived(name: KeyName, field: str = "") -> KeyReusedError:
    """The error of an entry that was not stored while its key was young."""
    return KeyReusedError(
        f"{_called(name, field)} is too old for an entry that was not stored when it was first "
        "given: send this entry under a new one"
    )


def _called(name: KeyName, field: str) -> str:
    if name.kind is KeyKind.CALL:
        return f"Idempotency-Key {name.key!r}"
    return f"{field}client_id: {name.key!r}"
