"""Versions of the configuration are kept, listed, compared and forgotten (SPEC.md A3)."""

import json
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import pytest

from tests.kit.kernel import InvalidRequestError, NotFoundError
from tests.kit.versions import HistoryTerms, MongoVersions, Note

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERMS = HistoryTerms()
SHOP, THEIRS = "bizs/acme/shop", "bizs/rival/shop"


@pytest.fixture
def versions(mongo_connection) -> MongoVersions:
    return MongoVersions(mongo_connection)


def revision(number: int, *, days: int = 0) -> str:
    made = NOW + timedelta(days=days, milliseconds=number)
    return f"{made.strftime('%Y%m%dT%H%M%S.%f')[:-3]}Z-{number:02}"


def documents(**bizs: str) -> dict[str, str]:
    """The stage, two tenants and a biz of each as it is described."""
    paths = {f"bizs/{tenant}/shop": json.dumps({"description": it}) for tenant, it in bizs.items()}
    return {"stage": "{}", "tenants/acme": "{}", "tenants/rival": "{}", **paths}


def test_a_version_has_what_it_changes_who_made_it_and_why(versions):
    assert versions.keep(revision(1), documents(acme="a"), NOW, TERMS) is True
    note = Note(by="ops", key="key-1", why="Slower.")
    versions.keep(revision(2), documents(acme="b"), NOW, TERMS, note)

    second, first = versions.page(None, None, None, 10).items

    assert (second.revision, second.note, second.paths) == (revision(2), note, (SHOP,))
    assert (first.note, first.changes) == (Note(), 4)
    assert second.at == NOW + timedelta(milliseconds=2)
    assert versions.documents(revision(1), None, None) == documents(acme="a")
    assert versions.documents(revision(2), None, SHOP) == {SHOP: '{"description": "b"}'}


def test_blanks_change_nothing_and_a_document_that_goes_is_gone_from_there_on(versions):
    versions.keep(revision(1), documents(acme="a"), NOW, TERMS)
    versions.keep(revision(2), documents(acme="a") | {"stage": " { } "}, NOW, TERMS)
    versions.keep(revision(3), documents(), NOW, TERMS)

    third, second, _ = versions.page(None, None, None, 10).items

    assert (second.changes, third.paths) == (0, (SHOP,))
    assert SHOP in versions.documents(revision(2), None, None)
    assert SHOP not in versions.documents(revision(3), None, None)


def test_a_revision_is_kept_once_and_whoever_made_it_may_say_so_later(versions):
    versions.keep(revision(1), documents(), NOW, TERMS)
    note = Note(by="ops", why="Mine.")

    assert versions.keep(revision(1), documents(), NOW, TERMS, note) is False
    assert versions.keep(revision(1), documents(), NOW, TERMS) is False

    assert versions.find(revision(1), None).note == note
    assert versions.knows(revision(1))
    assert not versions.knows(revision(2))


def test_a_revision_that_is_older_than_the_newest_is_left_out(versions):
    versions.keep(revision(2), documents(acme="b"), NOW, TERMS)

    assert versions.keep(revision(1), documents(acme="a"), NOW, TERMS) is False

    assert [one.revision for one in versions.page(None, None, None, 9).items] == [revision(2)]


def test_a_tenant_sees_versions_and_documents_of_its_own_alone(versions):
    versions.keep(revision(1), documents(acme="a", rival="a"), NOW, TERMS)
    versions.keep(revision(2), documents(acme="a", rival="b"), NOW, TERMS)
    versions.keep(revision(3), documents(acme="c", rival="b"), NOW, TERMS)

    mine = versions.page("acme", None, None, 10).items

    assert [(one.revision, one.paths) for one in mine] == [
        (revision(3), (SHOP,)),
        (revision(1), (SHOP, "tenants/acme")),
    ]
    assert versions.page("acme", THEIRS, None, 10).items == []
    assert versions.documents(revision(3), "acme", None).keys() == {SHOP, "tenants/acme"}
    assert versions.documents(revision(3), "acme", THEIRS) == {}
    with pytest.raises(NotFoundError):
        versions.find(revision(2), "acme")


def test_versions_of_one_document_are_listed_page_by_page(versions):
    for number in range(1, 8):
        texts = documents(acme=str(number // 2), rival=str(number))
        versions.keep(revision(number), texts, NOW, TERMS)

    first = versions.page(None, SHOP, None, 2)
    second = versions.page(None, SHOP, first.cursor, 2)

    found = [one.revision for one in (*first.items, *second.items)]
    assert found == [revision(number) for number in (6, 4, 2, 1)]
    assert (first.more, second.more, second.cursor) == (True, False, None)
    with pytest.raises(InvalidRequestError, match="cursor"):
        versions.page(None, None, "mine", 2)


def test_two_versions_differ_in_what_changed_between_them(versions):
    versions.keep(revision(1), documents(acme="a"), NOW, TERMS)
    versions.keep(revision(2), documents(acme="b", rival="b"), NOW, TERMS)
    versions.keep(revision(3), documents(acme="a", rival="b"), NOW, TERMS)

    before, after = versions.differences(revision(1), revision(3), None, None)
    back = versions.differences(revision(3), revision(2), "acme", None)

    assert (before, after) == ({}, {THEIRS: '{"description": "b"}'})
    assert back == ({SHOP: '{"description": "a"}'}, {SHOP: '{"description": "b"}'})
    with pytest.raises(NotFoundError):
        versions.differences(revision(1), revision(9), None, None)


def test_versions_beyond_the_count_are_forgotten_and_what_stands_is_read_all_the_same(
    versions, mongo_connection
):
    terms = HistoryTerms(versions=3)
    for number in range(1, 7):
        texts = documents(acme=str(number)) if number < 4 else documents(rival=str(number))
        versions.keep(revision(number), texts, NOW, terms)

    kept = versions.page(None, None, None, 10).items

    assert [one.revision for one in kept] == [revision(6), revision(5), revision(4)]
    assert versions.documents(revision(4), None, None) == documents(rival="4")
    assert versions.page(None, SHOP, None, 10).items[-1].revision == revision(4)
    # That it went is kept with the version, and what stands since before.
    assert mongo_connection.control("config_changes").count_documents({"path": SHOP}) == 1
    assert mongo_connection.control("config_changes").count_documents({}) == 7
    versions.keep(revision(7), documents(rival="7"), NOW, terms)
    assert mongo_connection.control("config_changes").count_documents({"path": SHOP}) == 0


def test_versions_beyond_the_age_are_forgotten_but_never_the_newest(versions):
    terms = HistoryTerms(days=30)
    versions.keep(revision(1), documents(acme="a"), NOW, terms)
    versions.keep(revision(2, days=20), documents(acme="b"), NOW + timedelta(days=20), terms)
    versions.keep(revision(3, days=45), documents(acme="c"), NOW + timedelta(days=45), terms)

    kept = [one.revision for one in versions.page(None, None, None, 10).items]
    versions.keep(revision(4, days=50), documents(), NOW + timedelta(days=900), terms)

    assert kept == [revision(3, days=45), revision(2, days=20)]
    assert [one.revision for one in versions.page(None, None, None, 10).items] == [
        revision(4, days=50)
    ]


def test_of_a_tenant_that_is_removed_nothing_more_is_kept(versions):
    moment = "2026-03-01T00:00:00Z"
    removing = {"since": moment, "settled_at": moment, "withdrawn_at": moment}
    versions.keep(revision(1), documents(acme="a"), NOW, TERMS)
    leaving = documents() | {"tenants/acme": json.dumps({"removing": removing})}
    versions.keep(revision(2), leaving, NOW, TERMS)

    assert versions.find(revision(2), None).paths == ()


def test_what_the_first_release_of_versions_has_stored_is_read_and_gone_on_with(
    versions, mongo_connection
):
    first = "20260301T120000.001Z-01"
    header = {"_id": first, "revision": first, "by": "ops", "key": "k", "why": "Why."}
    mongo_connection.control("config_versions").insert_one(header)
    mongo_connection.control("config_newest").insert_one({"_id": "all", "order": first})
    texts = {"stage": "{}", SHOP: '{"description":"a"}'}
    mongo_connection.control("config_changes").insert_many(
        {
            "_id": {"order": first, "path": path},
            "order": first,
            "revision": first,
            "path": path,
            "tenant": "" if path == "stage" else "acme",
            "digest": blake2b(text.encode(), digest_size=12).hexdigest(),
            "text": zlib.compress(text.encode()),
        }
        for path, text in texts.items()
    )

    versions.keep(revision(2), texts | {SHOP: "{}"}, NOW, TERMS)

    second, kept = versions.page(None, None, None, 10).items
    assert (kept.note.by, kept.note.why, kept.note.rolled_back_to) == ("ops", "Why.", "")
    assert (kept.changes, second.paths) == (2, (SHOP,))
    assert versions.documents(first, None, None) == texts


def test_whoever_keep_revisions_at_once_keep_each_once_and_in_order(versions):
    start = threading.Barrier(4)

    def keep(number: int) -> None:
        start.wait(60)
        texts = documents(acme=str(number % 2))
        versions.keep(revision(number % 2), texts, NOW, TERMS)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(keep, range(4)))

    found = versions.page(None, None, None, 10).items
    assert found[0].revision == revision(1)
    assert versions.documents(revision(1), None, None) == documents(acme="1")
    assert len(found) in {1, 2}
