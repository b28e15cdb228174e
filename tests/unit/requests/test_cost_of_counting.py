"""Counting the fields that a job's pages have costs next to nothing."""

import cProfile
import pstats
from types import SimpleNamespace

from tests.kit.mongo import settle
from tests.kit.requests import Coverage, Done

FIELDS = [f"field {n}" for n in range(50)]
PAGES = 100


def calls(coverage: Coverage | None) -> int:
    """Count the calls of Python and C that counting a batch of a job's pages takes."""
    claims = [
        SimpleNamespace(request=SimpleNamespace(id=n, job="june", body=SimpleNamespace(rule="a.b")))
        for n in range(PAGES)
    ]
    tally = settle.documents.Tally()
    profile = cProfile.Profile()
    profile.enable()
    settle._count_ends(tally, [(claim, Done((), coverage=coverage)) for claim in claims], set())
    profile.disable()
    assert tally["june", "done"] == PAGES
    if coverage is not None:
        assert tally["june", "read.a%2Eb.fields.field%201"] == PAGES
    return pstats.Stats(profile).total_calls


def test_names_of_fields_are_written_once_a_batch_and_not_for_each_page():
    counted = calls(Coverage(pages=1, records=1, fields=dict.fromkeys(FIELDS, 1)))

    # A name takes half a dozen calls, and each page has as many fields as there are.
    assert counted - calls(None) < PAGES * len(FIELDS) * 2
