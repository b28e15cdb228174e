"""All consumers, the scheduler and both are lost: everything runs again (SPEC.md D12)."""

from benchmarks.chaos.losing import lose
from benchmarks.chaos.runs import servers


def test_after_each_loss_everything_runs_again():
    """By a quicker clock than the product's; the benchmark `recovery` has the real one."""
    with servers() as used:
        found = lose(used, lambda _: None, every_seconds=3.0, cold_seconds=0.5, lease_seconds=600.0)

    # A quarter of a minute where nobody else works; nobody waits for the end of a lease.
    assert found.worst <= 120
