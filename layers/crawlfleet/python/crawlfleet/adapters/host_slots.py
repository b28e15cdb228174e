"""How many downloads of this worker may be under way at one host at once.

The fleet-wide limit is another matter; this one keeps a single worker from opening dozens of
connections to one site.
"""

import asyncio


class _Slots:
    __slots__ = ("semaphore", "users")

    def __init__(self, limit: int) -> None:
        self.semaphore = asyncio.Semaphore(limit)
        self.users = 0


class HostSlots:
    """Slots by host and limit: bizs with different limits for a host do not share slots.

    A host takes memory only while it is used or waited for.
    """

    def __init__(self) -> None:
        self._hosts: dict[tuple[str, int], _Slots] = {}

    async def take(self, host: str, limit: int) -> None:
        """Wait for a slot, first come, first served; :meth:`leave` must follow."""
        key = (host, limit)
        slots = self._hosts.get(key)
        if slots is None:
            slots = self._hosts[key] = _Slots(limit)
        slots.users += 1
        try:
            await slots.semaphore.acquire()
        except BaseException:
            self._forget(key, slots)
            raise

    def leave(self, host: str, limit: int) -> None:
        """Give the slot back."""
        key = (host, limit)
        slots = self._hosts[key]
        slots.semaphore.release()
        self._forget(key, slots)

    def _forget(self, key: tuple[str, int], slots: _Slots) -> None:
        slots.users -= 1
        if not slots.users:
            del self._hosts[key]

    def __len__(self) -> int:
        return len(self._hosts)
