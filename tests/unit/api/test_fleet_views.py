"""Fleet views for operators: reasons are short and carry no passwords."""

from tests.kit.api import REASON, fleet_view
from tests.kit.monitoring import Sample, Unread
from tests.kit.queue import NodeHealth
from tests.kit.worlds.incidents import START

REASONS = "cannot reach mongodb://root:hunter2@db.example: x\n" + "w" * 9_000


def test_no_reason_of_a_part_or_a_document_carries_a_password_or_more_than_a_few_lines():
    part = NodeHealth(
        part="mongodb", name="main", up=False, error=REASONS, missing={"Latency": REASONS}
    )
    seen = Sample(
        at=START,
        parts=(part,),
        config_refused=REASONS,
        unread=(Unread(what="ledger of acme/docs", why=REASONS),),
    )

    made = fleet_view(seen)

    [shown], [unread] = made.parts, made.unread
    for said in (shown.problem, shown.missing["Latency"], unread.why, made.config_refused):
        assert said.startswith("cannot reach mongodb://***@db.example: ")
        assert len(said) <= 4_000
    assert len(shown.problem) <= REASON
    assert unread.what == "ledger of acme/docs"


def test_where_nothing_is_wrong_there_is_no_reason():
    made = fleet_view(Sample(at=START, parts=(NodeHealth(part="redis", name="redis", up=True),)))

    assert (made.config_refused, made.parts[0].problem) == (None, None)
