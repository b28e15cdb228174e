"""A worker's pauses, and the steady clock that its waits and leases go by."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds that the parts of one worker wait, and that some of them may go on.

    Attributes:
        poll: Between looks at an empty queue. Where a look takes long the pause is as many times
            as long as it, between this and ``trouble``.
        kept: Between two looks of a worker that is kept while there is nothing to do.
        trouble: After a part did not answer.
        renew: Between two looks whether leases are to be renewed.
        account: Between two times that the account of the phases is written.
        rest: A lane whose requests cannot be claimed is left alone: others have work too.
        index: For so long an index that does not answer is waited for while leases are renewed.
            With a wait at each of many lanes the last ones' leases would be over, in the truth
            too, before their turn.
        true: How long what the truth said of a lease is taken to hold.
        unanswered: Between two looks for a lease of which the answer was lost.
        owned: Between two looks whose leases are whose that a node did not answer.
        heed: Between two looks which jobs are being cancelled.
        turn: For so long a request waits for a turn; then the whole of it comes again later.
        spell: Reading pages holds the event loop. After this long in one go, whoever else is due
            gets it.
        settle: Outcomes are stored when the oldest is this old.
        settle_again: After a store did not answer.
        watch, recover, cancel, sow, drain, advance, award, muster: Between two rounds of each.
        advance_round: How long a round of tasks goes on: pages are read by the same processor.
        award_round: How long a round of awards goes on.
        round_end: How long a worker that ends lets a round end that is on its way.
    """

    poll: float = 0.1
    kept: float = 0.5
    trouble: float = 1.0
    renew: float = 0.5
    account: float = 5.0
    rest: float = 5.0
    index: float = 1.0
    true: float = 2.0
    unanswered: float = 5.0
    owned: float = 1.0
    heed: float = 1.0
    turn: float = 20.0
    spell: float = 0.25
    settle: float = 0.2
    settle_again: float = 1.0
    watch: float = 1.0
    recover: float = 5.0
    cancel: float = 2.0
    sow: float = 0.5
    drain: float = 2.0
    advance: float = 1.0
    award: float = 0.5
    muster: float = 5.0
    advance_round: float = 3.0
    award_round: float = 5.0
    round_end: float = 3.0


PAUSES: Final = Pauses()
