"""Take a tenant's secrets out of what a spider that was told them gives or says."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from crawlfleet.kernel.errors import ExtractError
from crawlfleet.kernel.redaction import Mask
from crawlfleet.requests.models import Link, Skipped


def masked(
    given: Iterator[dict[str, object] | Link | Skipped], mask: Mask
) -> Iterator[dict[str, object] | Link | Skipped]:
    """Take secrets out of what a spider gives; a link that would carry one is left out."""
    try:
        for one in given:
            if isinstance(one, Link):
                if mask.finds(msgspec.to_builtins(one)):
                    why = "would carry a secret, which is never stored; fetch.headers may name it"
                    yield Skipped("link", why)
                    continue
                yield one
            elif isinstance(one, Skipped):
                yield Skipped(mask.text(one.place), mask.text(one.why))
            else:
                yield mask.value(one)
    except ExtractError as error:
        # Without its cause, whose text a log would show.
        raise masked_error(error, mask) from None


def masked_error(error: Exception, mask: Mask) -> Exception:
    """Take secrets out of what a reading raised."""
    if not mask:
        return error
    if not isinstance(error, ExtractError):
        return type(error)(mask.text(str(error)))
    return ExtractError(mask.text(error.field), mask.text(error.problem.message), error.seconds)
