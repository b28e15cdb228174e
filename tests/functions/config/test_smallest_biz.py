"""A biz of a name and a rule is crawled: nothing else has to be written."""

from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.worlds.functions import World, default_bizs


def test_a_biz_of_a_rule_alone_is_submitted_to_read_and_counted(world: World) -> None:
    smallest = {"rules": {"page": {"fields": {"title": {"css": "title::text"}}}}}
    world.fresh({"acme": {"docs": smallest}, "rival": default_bizs()["rival"]})

    with a_site() as site:
        [one, two] = submit(world, f"{site.url}/1", f"{site.url}/2")
        world.work()

    states = {ask(world, "GET", f"/v1/docs/requests/{each}").json["state"] for each in (one, two)}
    records = ask(world, "GET", "/v1/docs/records").json["records"]
    ledger = ask(world, "GET", "/v1/docs/ledger").json
    assert states == {"done"}
    assert {record["fields"]["title"] for record in records} == {"Page /1", "Page /2"}
    assert (ledger["done"], ledger["balanced"]) == (2, True)


def test_a_trial_by_the_fleet_says_why_a_field_has_no_value(world: World) -> None:
    rule = {"fields": {"title": {"css": "title", "regex": "Price: (.*)"}}}
    page = {"body": "<title>Price:\u00a05</title>", "url": "https://example.org/"}

    tried = ask(world, "POST", "/v1/docs/rules/try", {"rule": rule, "page": page}).json

    [field] = tried["coverage"]
    assert (field["name"], field["count"]) == ("title", 0)
    assert field["why"].startswith("its regex matches nothing in 'Price:\\xa05'")
    assert "U+00A0: `plain_space: true`" in field["why"]
