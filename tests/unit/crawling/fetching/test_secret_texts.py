"""Secrets of headers and spiders: when they are read, and when an old text is used."""

import asyncio

import pytest

from tests.kit.config import Spider
from tests.kit.fetching import SecretTexts
from tests.kit.kernel import ConfigError, NoSecretError, Problem, StoreUnavailableError


class Store:
    """A store of secrets whose answers a test decides."""

    def __init__(self, **texts):
        self.texts, self.fault, self.asked = texts, None, []

    def read(self, tenant, name):
        self.asked.append((tenant, name))
        if self.fault is not None:
            raise self.fault
        if name not in self.texts:
            raise ConfigError([Problem(f"secret {name}", "there is no such secret")])
        return self.texts[name]


class World:
    """A store, the texts read from it, and the clock by which they grow old."""

    def __init__(self, **texts):
        self.now, self.store = 0.0, Store(**texts)
        self.texts = SecretTexts(self.store.read, clock=lambda: self.now)

    def text(self, name="token"):
        return asyncio.run(self.texts.of("acme", [name]))[name]

    def fault(self, name="token"):
        with pytest.raises(NoSecretError) as caught:
            self.text(name)
        return caught.value


def test_a_secret_is_read_once_in_five_minutes_and_what_has_changed_is_used_then():
    world = World(token="one")
    assert [world.text(), world.text()] == ["one", "one"]
    assert world.store.asked == [("acme", "token")]

    world.store.texts["token"] = "two"
    world.now = 299.0
    assert world.text() == "one"
    world.now = 300.0
    assert world.text() == "two"


def test_a_secret_that_is_missing_says_which_and_is_read_again_after_15_seconds():
    world = World()
    error = world.fault()
    assert "'token' of tenant 'acme'" in str(error)
    assert "there is no such secret" in str(error)
    assert error.again_seconds == 15.0

    world.store.texts["token"] = "here"
    world.now = 14.0
    world.fault()
    assert len(world.store.asked) == 1
    world.now = 15.0
    assert world.text() == "here"


def test_while_the_store_does_not_answer_the_last_text_is_used():
    world = World(token="one")
    world.text()

    world.store.fault, world.now = StoreUnavailableError("secretsmanager", "slow"), 300.0
    assert world.text() == "one"


def test_a_secret_that_was_taken_away_is_used_no_longer():
    world = World(token="one")
    world.text()

    del world.store.texts["token"]
    world.now = 300.0
    assert "there is no such secret" in str(world.fault())


@pytest.mark.parametrize("fault", [RuntimeError("the text is s3cr3t"), ValueError("s3cr3t")])
def test_no_message_has_what_the_store_quotes(fault, caplog):
    world = World()
    world.store.fault = fault

    assert "s3cr3t" not in str(world.fault())
    assert "s3cr3t" not in caplog.text
    assert "token" in caplog.text


def test_a_text_that_was_refused_is_read_again_but_not_within_15_seconds():
    world = World(token="one")

    async def renewed():
        return await world.texts.renewed("acme", {"token": "one"})

    world.text()
    world.store.texts["token"] = "two"
    world.now = 14.0
    assert asyncio.run(renewed()) is False
    world.now = 15.0
    assert asyncio.run(renewed()) is True
    assert world.text() == "two"


def test_the_end_of_a_line_that_a_file_has_put_there_is_not_part_of_it():
    assert World(token=" one\n").text() == "one"


def test_a_text_of_several_lines_is_no_header():
    world = World(token="one\ntwo")

    with pytest.raises(NoSecretError, match="control characters"):
        asyncio.run(world.texts.headers("acme", ["token"]))


def test_parameters_are_filled_at_any_depth_and_the_spider_itself_keeps_the_references():
    world = World(token="s3cr3t", other="0th3r")
    spider = Spider(
        executor="x",
        parameters={"login": {"token": {"secret": "token"}}, "keys": [1, {"secret": "other"}]},
    )

    filled, mask = asyncio.run(world.texts.filled("acme", spider))

    assert filled.parameters == {"login": {"token": "s3cr3t"}, "keys": [1, "0th3r"]}
    assert spider.parameters["keys"] == [1, {"secret": "other"}]
    assert mask.text("s3cr3t or 0th3r") == "*** or ***"
    assert "s3cr3t" not in f"{world.texts!r} {mask!r}"
