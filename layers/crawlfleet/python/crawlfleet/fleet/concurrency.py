"""How many invocations of the workers' function there may be at once (SPEC.md A12).

As many as are wanted, or as many of them as the account has to give.
"""

from collections.abc import Callable
from typing import Final

from crawlfleet.fleet.ports import ConcurrencyLimit
from crawlfleet.kernel.errors import LimitRefusedError, StoreError

#: Numbers that are tried at most where the account has not as many as are wanted: so many find the
#: most that it has, of any that a stage may want.
PROBES: Final = 12


def allow(
    limit: ConcurrencyLimit, wanted: int, warn: Callable[[str, Exception], None]
) -> int | None:
    """Allow so many; returns how many there may be then, None where that is not known.

    Where the account has not so many to give it is as many as it has, and never fewer than there
    were; where Lambda does not answer it is what it was.
    """
    current = None
    try:
        current = limit.current()
        if current != wanted:
            limit.change(wanted)
    except LimitRefusedError as error:
        given = _raised(limit, current or 0, wanted)
        warn(f"the account has not the concurrency for {wanted:,} workers but for {given:,}", error)
        return given or None
    except StoreError as error:
        warn("the workers' concurrency could not be changed", error)
        return current
    return wanted


def _raised(limit: ConcurrencyLimit, given: int, refused: int) -> int:
    """Allow the most that the account gives: ``given`` or more, fewer than it has ``refused``."""
    # Mostly there is no more than there was at the last look: then this is the only try. What is
    # not limited must not become one, for however short a time.
    tried = given + 1 if given else refused // 2
    for _ in range(PROBES):
        if not given < tried < refused:
            break
        try:
            limit.change(tried)
        except LimitRefusedError:
            refused = tried
        except StoreError:
            break
        else:
            given = tried
        tried = (given + refused) // 2
    return given
