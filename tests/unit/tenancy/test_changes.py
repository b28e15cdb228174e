"""Changes of tenants' documents: what stays, what goes, and what is refused."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.kernel import ConflictError, InvalidRequestError, NotFoundError
from tests.kit.tenancy import ManagedKey, models

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


def standing(**fields):
    return models.standing_of({"tenants/acme": json.dumps(fields)}, "acme")


def test_a_new_tenant_has_its_settings_and_one_key_and_no_file_changes_that():
    written = json.loads(models.added({"share": 2, "quotas": []}, "key-1"))

    assert written == {"share": 2, "quotas": [], "managed": True, "api_keys": ["key-1"]}


def test_settings_are_merged_and_what_is_null_goes():
    before = standing(share=2, description="Ours.", ceilings={"in_flight": 5, "trials": 9})

    after = json.loads(models.changed(before, {"share": None, "ceilings": {"in_flight": 7}}))

    assert after == {"description": "Ours.", "ceilings": {"in_flight": 7, "trials": 9}}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"share": 0}, "settings.share"),
        ({"shared": 1}, "settings.shared"),
        ({"ceilings": {"in_flight": "many"}}, "settings.ceilings.in_flight"),
        ({"needs": {"workers": 1, "requests_per_hour": 5}}, "settings.needs"),
        ({"managed": False}, "settings.managed"),
        ({"suspended": True}, "settings.suspended"),
        ({"api_keys": ["mine"]}, "settings.api_keys"),
        ({"retiring_keys": {}}, "settings.retiring_keys"),
    ],
)
def test_a_wrong_setting_is_named(settings, field):
    with pytest.raises(InvalidRequestError) as refused:
        models.changed(standing(), settings)
    with pytest.raises(InvalidRequestError):
        models.added(settings, "key-1")

    assert [problem.field for problem in refused.value.problems] == [field]


def test_settings_that_are_too_large_or_nested_too_deeply_are_refused():
    deep = {"description": "deep"}
    for _ in range(5_000):
        deep = {"users": deep}

    for settings in ({"description": "x" * 2_000_000}, deep):
        with pytest.raises(InvalidRequestError) as refused:
            models.changed(standing(), settings)
        assert [problem.field for problem in refused.value.problems] == ["settings"]


def test_a_change_for_another_revision_is_refused_and_says_which_there_is():
    now, before = standing(share=3), standing(share=2)
    documents = {"tenants/acme": now.text}

    with pytest.raises(ConflictError, match=now.revision):
        models.standing_of(documents, "acme", before.revision)
    assert models.standing_of(documents, "acme", now.revision) == now


def test_the_revision_follows_what_is_said_and_not_how_it_is_written():
    spaced = models.standing_of({"tenants/acme": '{ "share" : 2 }'}, "acme")

    assert spaced.revision == standing(share=2).revision != standing(share=3).revision


@pytest.mark.parametrize("documents", [{}, {"tenants/acme": "{"}, {"tenants/acme": '{"x": 1}'}])
def test_a_tenant_without_a_readable_document_is_not_found(documents):
    with pytest.raises(NotFoundError):
        models.standing_of(documents, "acme")
    assert models.tenants_in(documents) == {}


def test_suspending_and_resuming_leaves_everything_else():
    suspended = json.loads(models.switched(standing(share=2), suspended=True))
    resumed = models.switched(standing(**suspended), suspended=False)

    assert suspended == {"share": 2, "managed": True, "suspended": True}
    assert json.loads(resumed) == {"share": 2, "managed": True}


def test_earlier_keys_end_after_the_overlap_whatever_end_they_had():
    before = standing(
        api_keys=["a", "b"],
        retiring_keys={"old": "2026-11-23T12:30:00Z", "gone": "2026-11-23T11:00:00Z"},
    )

    rotation = models.rotated(before, "c", NOW, timedelta(hours=1))

    assert json.loads(rotation.text)["api_keys"] == ["c"]
    assert json.loads(rotation.text)["retiring_keys"] == {
        "old": "2026-11-23T12:30:00Z",
        "a": "2026-11-23T13:00:00Z",
        "b": "2026-11-23T13:00:00Z",
    }
    assert rotation.ended == ("gone",)


def test_without_an_overlap_earlier_keys_have_ended():
    before = standing(api_keys=["a"])

    rotation = models.rotated(before, "b", NOW, timedelta())

    assert "retiring_keys" not in json.loads(rotation.text)
    assert rotation.ended == ("a",)


def test_more_keys_than_may_retire_at_once_are_refused_with_when_one_ends():
    retiring = {f"key-{n}": f"2026-11-24T00:00:{n:02}Z" for n in range(16)}
    before = standing(api_keys=["a"], retiring_keys=retiring)

    with pytest.raises(ConflictError, match="2026-11-24T00:00:00Z"):
        models.rotated(before, "b", NOW, timedelta(days=1))


def test_keys_that_no_document_has_are_left_over_once_their_call_must_be_over():
    def key(id_, minutes):
        return ManagedKey(id=id_, tenant="acme", made_at=NOW - timedelta(minutes=minutes))

    documents = {
        "tenants/acme": json.dumps(
            {"api_keys": ["named"], "retiring_keys": {"ending": "2026-11-24T00:00:00Z"}}
        )
    }
    keys = [key("named", 60), key("ending", 60), key("lost", 60), key("under-way", 1)]

    assert [one.id for one in models.leftovers(keys, documents, NOW)] == ["lost"]
