"""Operators and tenants read, try, change and take back the configuration by calls (SPEC.md A3)."""

import dataclasses
import json
from datetime import UTC, datetime

import pytest

from tests.functions.http import ask, submit
from tests.kit.config import read_documents, write_tree
from tests.kit.kernel import ConflictError, StoreConflictError, StoreUnavailableError, names
from tests.kit.worlds.functions import STAGE, biz

CONFIG = "/v1/config"
TICK = {"source": "aws.events", "detail-type": "Scheduled Event"}


@pytest.fixture(autouse=True)
def operator(world, monkeypatch):
    """A stage whose router may write the configuration, and where acme is the operator."""
    monkeypatch.setenv(names.ENV_WRITES_CONFIG, "yes")
    world.end_environments()
    push(world)
    yield
    world.end_environments()


def push(world) -> None:
    bizs = {"acme": {"docs": biz()}, "rival": {"docs": biz(description="Theirs.")}}
    world.push(bizs, stage={"operators": [world.tenants["acme"]]})


def docs(world, tenant: str = "acme") -> str:
    return f"bizs/{world.tenants[tenant]}/docs"


def revision(world) -> str:
    return ask(world, "GET", f"{CONFIG}/documents").json["revision"]


def change(world, path, content, *, key="acme", at=None, **options):
    body = {"changes": [{"path": path, "content": content}], **options}
    return ask(world, "POST", CONFIG, body | ({"revision": at} if at else {}), key=key)


def versions(world, key="acme", **query):
    return ask(world, "GET", f"{CONFIG}/versions", query=query, key=key).json["versions"]


def content(world, path, key="acme", **query):
    answer = ask(world, "GET", f"{CONFIG}/document", query={"path": path, **query}, key=key)
    return answer.json.get("content") if answer.status == 200 else answer.status


def test_a_rule_is_read_and_put_by_itself_and_is_in_force_at_once(world):
    path = f"{docs(world)}/rules/page"
    rule = content(world, path)

    answer = change(world, path, {"fields": {"name": {"css": "h1"}}}, at=revision(world), why="h1")

    assert rule == {"fields": {"title": {"css": "title"}}}
    assert (answer.status, answer.json["written"]) == (200, True), answer.text
    [difference] = answer.json["differences"]
    assert (difference["path"], difference["change"]) == (docs(world), "changed")
    assert '+        "name": {' in difference["diff"]
    assert content(world, path) == {"fields": {"name": {"css": "h1"}}}
    assert answer.json["revision"] == revision(world)


def test_a_version_says_who_made_it_and_why_and_the_one_before_is_kept_too(world):
    before = revision(world)
    after = change(world, f"{docs(world)}/description", "New.", why="As asked.").json["revision"]

    newest, earlier = versions(world)[:2]

    assert (newest["revision"], newest["by"]) == (after, world.tenants["acme"])
    assert (newest["why"], newest["paths"]) == ("As asked.", [docs(world)])
    assert newest["key"] == "key-acme"
    assert (earlier["revision"], earlier["by"]) == (before, None)
    assert content(world, f"{docs(world)}/description", revision=before) == 404
    assert content(world, f"{docs(world)}/description", revision=after) == "New."


def test_every_mistake_is_told_by_its_field_and_nothing_is_written(world):
    before = read_documents(world.ssm, STAGE)
    wrong = {"fields": {"a": {"css": "p["}, "b": {"type": "number"}}}

    answers = [
        change(world, f"{docs(world)}/rules/page", wrong),
        change(world, "stage/fleet/max_consumers", 0),
        change(world, "nowhere/else", {}),
        change(world, f"{docs(world)}/nothing/there/is", 1),
    ]

    assert [one.status for one in answers] == [400] * 4
    assert sorted(answers[0].fields) == [
        f"{docs(world)}: rules.page.fields.a.css",
        f"{docs(world)}: rules.page.fields.b",
    ]
    assert answers[1].fields == ["stage: fleet.max_consumers"]
    assert answers[2].fields == answers[3].fields == ["changes[0].path"]
    assert read_documents(world.ssm, STAGE) == before


def test_a_dry_run_tells_what_would_change_and_whose_work_it_touches(world):
    submit(world, "https://example.org/1", "https://example.org/2")
    schedule = {"cron": "0 3 * * *", "rule": "page", "urls": ["https://example.org/mine"]}
    assert ask(world, "PUT", "/v1/docs/schedules/nightly", schedule).status == 200
    before = read_documents(world.ssm, STAGE)

    answer = change(world, f"{docs(world)}/description", "New.", dry_run=True).json

    assert (answer["written"], answer["revision"]) == (False, revision(world))
    assert [one["path"] for one in answer["differences"]] == [docs(world)]
    assert answer["touched"] == [
        {
            "tenant": world.tenants["acme"],
            "biz": "docs",
            "requests": 2,
            "jobs": 0,
            "schedules": 1,
            "subscriptions": 0,
        }
    ]
    assert read_documents(world.ssm, STAGE) == before


def test_a_change_for_an_older_revision_is_refused_and_names_both(world):
    first = revision(world)
    second = change(world, f"{docs(world)}/description", "Mine.").json["revision"]

    refused = change(world, f"{docs(world)}/description", "Theirs.", at=first)

    assert refused.status == 409
    assert first in refused.json["detail"]
    assert second in refused.json["detail"]
    assert content(world, f"{docs(world)}/description") == "Mine."


def test_several_edits_are_one_change_and_null_removes(world):
    name = world.tenants["acme"]
    body = {
        "changes": [
            {"path": f"bizs/{name}/news", "content": biz(collection="news")},
            {"path": f"bizs/{name}/news/weight", "content": 3},
            {"path": "stage/pools/large", "content": {"max_consumers": 4}},
        ]
    }
    added = ask(world, "POST", CONFIG, body)
    removed = change(world, f"bizs/{name}/news", None)

    assert (added.status, added.json["bizs"]) == (200, 1), added.text
    assert [one["change"] for one in added.json["differences"]] == ["added", "changed"]
    assert removed.json["differences"][0]["change"] == "removed"
    assert content(world, "stage/pools/large") == {"max_consumers": 4}
    assert content(world, f"bizs/{name}/news") == 404


def test_one_call_goes_back_to_an_earlier_version_which_is_a_new_one(world):
    first, workers = revision(world), content(world, "stage/fleet/max_consumers")
    change(world, f"{docs(world)}/description", "Wrong.")
    change(world, "stage/fleet/max_consumers", 9)

    answer = ask(world, "POST", f"{CONFIG}/rollback", {"to": first, "why": "Undo."})

    assert (answer.status, answer.json["written"]) == (200, True), answer.text
    assert content(world, f"{docs(world)}/description") == 404
    assert content(world, "stage/fleet/max_consumers") == workers
    newest = versions(world)[0]
    assert (newest["revision"], newest["rolled_back_to"]) == (answer.json["revision"], first)
    differ = ask(world, "GET", f"{CONFIG}/diff", query={"from": first})
    assert differ.json["differences"] == []


def test_one_document_goes_back_alone_and_what_is_not_kept_is_not_found(world):
    first = revision(world)
    change(world, f"{docs(world)}/description", "Wrong.")
    change(world, "stage/fleet/max_consumers", 9)

    answer = ask(world, "POST", f"{CONFIG}/rollback", {"to": first, "path": docs(world)})
    unknown = ask(world, "POST", f"{CONFIG}/rollback", {"to": "20200101T000000.000Z-ab"})
    inside = {"to": first, "path": f"{docs(world)}/rules"}

    assert [one["path"] for one in answer.json["differences"]] == [docs(world)]
    assert content(world, "stage/fleet/max_consumers") == 9
    assert unknown.status == 404
    assert ask(world, "POST", f"{CONFIG}/rollback", inside).fields == ["path"]


def test_what_is_pushed_past_the_api_is_kept_by_the_next_tick(world):
    world.call(names.SCHEDULER, TICK)
    first = revision(world)
    write_tree(world.ssm, STAGE, {docs(world): json.dumps(biz(description="Pushed."))})
    world.call(names.SCHEDULER, TICK)

    newest, earlier = versions(world)[:2]
    differ = ask(world, "GET", f"{CONFIG}/diff", query={"from": first, "to": newest["revision"]})

    assert (newest["by"], newest["paths"]) == (None, [docs(world)])
    assert earlier["revision"] == first
    assert '+  "description": "Pushed."' in differ.json["differences"][0]["diff"]


def test_a_tenant_reads_its_own_alone(world):
    first = revision(world)
    change(world, f"{docs(world)}/description", "Ours.", why="Not for rivals.")
    change(world, f"{docs(world, 'rival')}/description", "Yours.", why="By acme.")

    listed = ask(world, "GET", f"{CONFIG}/documents", key="rival").json["documents"]
    seen = versions(world, "rival")
    theirs = versions(world, "rival", path=docs(world))
    differ = ask(world, "GET", f"{CONFIG}/diff", query={"from": first}, key="rival").json

    own = [docs(world, "rival"), f"tenants/{world.tenants['rival']}"]
    assert [one["path"] for one in listed] == own
    assert content(world, "stage", key="rival") == 404
    assert content(world, docs(world), key="rival") == 404
    assert content(world, docs(world), key="rival", revision=first) == 404
    assert {path for one in seen for path in one["paths"]} == set(own)
    assert {(one["by"], one["why"]) for one in seen} == {(None, "")}
    assert theirs == []
    assert [one["path"] for one in differ["differences"]] == [docs(world, "rival")]


def test_a_tenant_changes_its_rules_and_grows_more_polite(world):
    path = docs(world, "rival")

    rule = change(world, f"{path}/rules/page", {"fields": {"a": {"css": "p"}}}, key="rival")
    slower = change(world, f"{path}/politeness", {"per_second": 0.5}, key="rival", why="Slow.")

    assert (rule.status, slower.status) == (200, 200), slower.text
    assert content(world, f"{path}/politeness/per_second", key="rival") == 0.5
    assert versions(world, "rival")[0]["why"] == "Slow."
    assert versions(world)[0]["by"] == world.tenants["rival"]


@pytest.mark.parametrize(
    ("inside", "value", "field"),
    [
        ("weight", 100, "weight"),
        ("politeness", {"robots": "ignore"}, "politeness.robots"),
        ("fetch", {"user_agent": "Other"}, "fetch"),
        ("intake", {"max_backlog": 1}, "intake"),
    ],
)
def test_a_tenant_changes_nothing_that_costs_others(world, inside, value, field):
    path = docs(world, "rival")
    before = read_documents(world.ssm, STAGE)

    answer = change(world, f"{path}/{inside}", value, key="rival")

    assert (answer.status, answer.fields) == (400, [f"{path}: {field}"])
    assert read_documents(world.ssm, STAGE) == before


def test_a_tenant_changes_no_document_of_others_and_no_bizs(world):
    rival = world.tenants["rival"]
    before = read_documents(world.ssm, STAGE)

    answers = [
        change(world, docs(world), {}, key="rival"),
        change(world, "stage/fleet/max_consumers", 9, key="rival"),
        change(world, f"tenants/{rival}", {"share": 100}, key="rival"),
        change(world, f"bizs/{rival}/more", biz(collection="more"), key="rival"),
        change(world, docs(world, "rival"), None, key="rival"),
    ]

    assert [one.status for one in answers] == [400] * 5
    assert read_documents(world.ssm, STAGE) == before


def test_a_tenant_goes_back_with_its_own_bizs_alone(world):
    path, first = docs(world, "rival"), revision(world)
    change(world, f"{path}/rules/page", {"fields": {"a": {"css": "p"}}}, key="rival")
    change(world, f"{docs(world)}/description", "Ours.")

    answer = ask(world, "POST", f"{CONFIG}/rollback", {"to": first}, key="rival")

    assert answer.status == 200, answer.text
    assert [one["path"] for one in answer.json["differences"]] == [path]
    assert content(world, f"{docs(world)}/description") == "Ours."


def test_a_tenant_fills_no_more_than_its_part_of_the_history(world):
    change(world, "stage/history", {"versions": 20})
    path = f"{docs(world, 'rival')}/description"

    first = change(world, path, "One.", key="rival")
    second = change(world, path, "Two.", key="rival")
    operators = change(world, path, "Three.")

    assert (first.status, second.status, operators.status) == (200, 429, 200)
    assert (second.json["limit"], second.json["allowed"]) == ("history.versions", 1)
    assert content(world, path) == "Three."


def test_a_rule_that_takes_long_to_check_keeps_no_operator_from_changing_anything(
    world, monkeypatch
):
    service = world.context().configuration
    ask_trials, meanwhile = service.trials.ask, []

    def ask_slowly(question):
        # An operator comes while the rule is checked.
        with service.tenants.locked():
            meanwhile.append(question)
        return ask_trials(question)

    monkeypatch.setattr(type(service.trials), "ask", lambda _, question: ask_slowly(question))
    monkeypatch.setattr("crawlfleet.tenancy.service._LOCK_PAUSE_SECONDS", 0)
    path = f"{docs(world, 'rival')}/rules/page"

    answer = change(world, path, {"fields": {"name": {"css": "h1"}}}, key="rival")

    assert (answer.status, len(meanwhile)) == (200, 1), answer.text
    assert content(world, path) == {"fields": {"name": {"css": "h1"}}}


def test_a_rule_that_came_in_between_is_not_put_unchecked(world, monkeypatch):
    service, path = world.context().configuration, docs(world, "rival")
    before = read_documents(world.ssm, STAGE)
    texts = iter(["h1", "h2"])

    def wanted(standing):
        rules = {"page": {"fields": {"name": {"css": next(texts)}}}}
        return {**standing, path: json.dumps(biz(rules=rules))}

    with pytest.raises(ConflictError, match="changed a rule or a spider meanwhile"):
        service.change(wanted, datetime.now(UTC), expected=None, tenant=None, note=None)

    assert read_documents(world.ssm, STAGE) == before


def test_changes_that_a_tenant_tries_count_among_its_trials(world):
    change(world, f"tenants/{world.tenants['rival']}/ceilings", {"trials": 1})
    context, tenant = world.context(), world.tenants["rival"]
    path, tree = f"{docs(world, 'rival')}/description", context.config.current()

    with context.submission.ceilings.trial(tree, tenant):
        refused = change(world, path, "New.", key="rival", dry_run=True)
        operators = change(world, path, "New.", dry_run=True)
    taken = change(world, path, "New.", key="rival", dry_run=True)

    assert (refused.status, operators.status, taken.status) == (429, 200, 200)
    assert refused.json["limit"] == "ceilings.trials"


def test_where_functions_may_write_no_configuration_it_is_read_and_tried(world, monkeypatch):
    monkeypatch.delenv(names.ENV_WRITES_CONFIG)
    world.end_environments()

    tried = change(world, f"{docs(world)}/description", "New.", dry_run=True)
    refused = change(world, f"{docs(world)}/description", "New.")

    assert (tried.status, refused.status) == (200, 409)
    assert content(world, f"{docs(world)}/description") == 404


def test_nothing_is_written_where_the_version_before_cannot_be_kept(world):
    before = read_documents(world.ssm, STAGE)

    class Away:
        def keep(self, *_arguments):
            raise ConnectionError

    service = dataclasses.replace(world.context().configuration, versions=Away())
    path, options = f"{docs(world)}", {"expected": None, "tenant": None, "note": None}
    with pytest.raises(ConnectionError):
        service.change(
            lambda standing: {**standing, path: json.dumps(biz(description="New."))},
            datetime.now(UTC),
            **options,
        )

    assert read_documents(world.ssm, STAGE) == before


def test_a_tenant_is_told_of_its_own_mistakes_and_not_of_those_of_others(world):
    path = f"{docs(world, 'rival')}/rules/page"

    wrong = change(world, path, {"fields": {"a": {"type": "none-such"}}}, key="rival")
    broken = names.config_root(STAGE) + f"/{docs(world)}"
    text = '{"collection": "secret of acme"}'
    world.ssm.put_parameter(Name=broken, Value=text, Type="String", Overwrite=True)
    of_others = change(world, path, {"fields": {"a": {"css": "p"}}}, key="rival")

    assert wrong.status == 400
    assert wrong.fields[0].startswith(f"{docs(world, 'rival')}: rules.page")
    assert of_others.status == 409
    assert "ask an operator" in of_others.text
    assert "secret" not in of_others.text


def test_of_two_who_change_it_at_once_one_is_asked_to_look_again(world, monkeypatch):
    service = world.context().configuration
    before = read_documents(world.ssm, STAGE)
    path = docs(world)

    def wanted(standing):
        return {**standing, path: json.dumps(biz(description="New."))}

    def beaten(*_given, **_more):
        raise StoreConflictError("ssm", "another revision stands")

    monkeypatch.setattr("crawlfleet.config.publishing.carry_out", beaten)
    with pytest.raises(ConflictError, match="meanwhile"):
        service.change(wanted, datetime.now(UTC), expected=None, tenant=None, note=None)
    assert read_documents(world.ssm, STAGE) == before


def test_what_is_written_is_in_force_though_its_version_cannot_be_kept(world):
    service = world.context().configuration

    class Once:
        """Versions that are kept once, of the one before."""

        kept = 0

        def keep(self, *given):
            self.kept += 1
            if self.kept > 1:
                raise StoreUnavailableError("mongodb", "no answer")

    done = dataclasses.replace(service, versions=Once()).change(
        lambda standing: {**standing, docs(world): json.dumps(biz(description="New."))},
        datetime.now(UTC),
        expected=None,
        tenant=None,
        note=None,
    )

    assert done.written
    assert done.revision == revision(world)


def test_a_rule_that_cannot_be_checked_is_not_put(world):
    world.lambdas.faults[names.TRIALS] = b'{"errorMessage": "no"}'

    answer = change(world, f"{docs(world)}/rules/page", {"fields": {"a": {"css": "p"}}})

    world.lambdas.faults.clear()
    assert answer.status == 503
    assert content(world, f"{docs(world)}/rules/page") == {"fields": {"title": {"css": "title"}}}


def test_a_spider_is_checked_as_rules_are(world):
    spider = {"executor": "no_such_executor"}

    answer = change(world, f"{docs(world)}/spiders/mine", spider)

    assert answer.status == 400, answer.text
    assert answer.fields[0].startswith(f"{docs(world)}: spiders.mine")
