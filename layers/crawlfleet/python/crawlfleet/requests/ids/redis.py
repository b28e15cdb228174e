"""Leases of Snowflake worker numbers in Redis (SPEC.md A2)."""

import secrets
from typing import Final

from crawlfleet.kernel.errors import WorkerNumbersExhaustedError
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script, fleet_keys
from crawlfleet.requests.ids.issuer import WORKER_NUMBERS, LeasedNumber, first_mark

_LEASE_NUMBER: Final = Script("requests/ids/lease_number")
_ADVANCE_NUMBER: Final = Script("requests/ids/advance_number")


class RedisWorkerNumbers:
    """Lease worker numbers of a range of the 1,024.

    A fence is ``count:nonce:holder``: the count tells the order, the nonce keeps a fence unique
    when the count was lost with Redis, the holder tells people who it is.

    ``numbers`` are those given here: another part may serve the rest while Redis is down, so two
    parts' ranges never overlap. ``fleet`` keeps fleets apart that share a Redis.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        numbers: range = range(WORKER_NUMBERS),
        fleet: str = "fleet",
    ) -> None:
        if not numbers or numbers.step != 1 or numbers[0] < 0 or numbers[-1] >= WORKER_NUMBERS:
            raise ValueError(f"worker numbers lie in 0..{WORKER_NUMBERS - 1}, not in {numbers}")
        self._redis, self._numbers = connection, numbers
        keys = fleet_keys(fleet)
        self._keys = (keys.numbers, keys.fences, keys.marks, keys.fence_count)

    def lease(self, holder: str, now_ms: int, term_ms: int) -> LeasedNumber:
        """Lease the number that has been free for longest, for ``term_ms``.

        Raises:
            WorkerNumbersExhaustedError: all are leased.
        """
        answer = self._redis.once(
            _LEASE_NUMBER,
            self._keys,
            *(self._numbers.start, self._numbers.stop, now_ms, now_ms + term_ms),
            f"{secrets.token_hex(8)}:{holder}",
            str(first_mark(now_ms)),
        )
        if answer is None:
            raise WorkerNumbersExhaustedError(
                f"all {len(self._numbers)} worker numbers are leased; ask again when a term ends"
            )
        with self._redis.translated():
            number, fence, mark = (text(value) for value in several(answer, 3))
            return LeasedNumber(number=int(number), fence=fence.decode(), mark=int(mark))

    def advance(self, leased: LeasedNumber, mark: int, now_ms: int, term_ms: int) -> bool:
        """Spend the positions below ``mark`` and renew the lease, in one step.

        False, and no effect, when the lease has ended, is another's, its mark is not ``leased``'s,
        or ``mark`` lies before it. Not repeated when the answer is lost: two equal calls of one
        holder must not both succeed.
        """
        if mark < leased.mark:
            return False
        answer = self._redis.once(
            _ADVANCE_NUMBER,
            self._keys[:3],
            *(leased.number, leased.fence, str(leased.mark), str(mark), now_ms, now_ms + term_ms),
        )
        return whole(answer) == 1
