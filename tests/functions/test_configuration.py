"""A pushed configuration is in force within one poll, without a restart (SPEC.md A3)."""

from crawlfleet import names
from tests.functions.http import ask

PAGE = {"url": "https://example.org/"}
DETAIL = {"fields": {"heading": {"css": "h1"}}}


def test_a_broken_document_is_refused_and_the_last_good_one_stays_in_force(world, capsys):
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    root = names.config_root("test")
    path = f"{root}/bizs/{world.tenants['acme']}/docs"
    world.ssm.put_parameter(Name=path, Value='{"rules": 7}', Type="String", Overwrite=True)
    world.ssm.put_parameter(
        Name=f"{root}/revision", Value="edited-by-hand", Type="String", Overwrite=True
    )

    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    assert ask(world, "POST", "/v1/shop/requests", {**PAGE, "rule": "page"}).status == 202
    world.call(names.MONITOR, {})
    assert '"ConfigRefused":[1.0]' in capsys.readouterr().out.replace(" ", "")


def test_a_key_that_is_taken_from_a_tenant_is_turned_away_at_once(world):
    assert ask(world, "GET", "/v1/docs/stats").status == 200
    path = f"{names.config_root('test')}/tenants/{world.tenants['acme']}"
    world.ssm.put_parameter(Name=path, Value='{"api_keys": []}', Type="String", Overwrite=True)
    world.ssm.put_parameter(
        Name=f"{names.config_root('test')}/revision", Value="2", Type="String", Overwrite=True
    )

    assert ask(world, "GET", "/v1/docs/stats").status == 403
