"""What is known of incidents, and who is told of them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from crawlfleet.model.incident import Bulletin, Desk, Incident, Letter


class Book(NamedTuple):
    """What the book holds of the present: every incident that may still change, and the desk."""

    incidents: tuple[Incident, ...] = ()
    desk: Desk = Desk()


class IncidentBook(Protocol):
    """The incidents of the stage, of now and of the last months."""

    def take_turn(self, by: str, now: datetime, term: timedelta) -> bool:
        """Whether the caller is the one to look and tell now, until the term ends or it is done.

        False while it is another's turn; two that look at once would tell twice.
        """
        ...

    def end_turn(self, by: str) -> None:
        """The caller is done; no effect if the turn is another's by now."""
        ...

    def read(self) -> Book:
        """The present."""
        ...

    def write(
        self, incidents: Iterable[Incident], desk: Desk, past: Iterable[Incident] = ()
    ) -> None:
        """Put incidents in the place of what was known of them, by key and ``id``.

        ``past`` are those that will not change any more: they are kept for three months for people
        who ask, but for such as were only ever suspected.
        """
        ...

    def find(
        self,
        tenants: Sequence[str] | None,
        *,
        open_only: bool,
        before: tuple[int, str] | None,
        limit: int,
    ) -> list[Incident]:
        """Incidents that opened once, the newest first: by ``opened_at``, then by ``id``.

        Args:
            tenants: Whose; the empty name is the platform. None for everybody's.
            open_only: Only those that are open.
            before: Only those behind this place: epoch milliseconds of ``opened_at``, and ``id``.
            limit: The most that are wanted.
        """
        ...


class Notifier(Protocol):
    """Tells. Each message may arrive more than once; a call that returns has handed it over.

    MessageRefusedError: this message will never be taken. StoreUnavailableError: none is taken now.
    """

    def tell_people(self, letter: Letter) -> None:
        """Send a message to the administrators, in sentences."""
        ...

    def tell_phones(self, letter: Letter) -> None:
        """Send the short form of a message to those who are to be woken."""
        ...

    def tell_machines(self, bulletin: Bulletin) -> None:
        """Send a message to whatever listens for one."""
        ...
