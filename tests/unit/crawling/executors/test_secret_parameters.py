"""Spiders whose parameters refer to secrets: what is checked, put in and kept out (D13)."""

from collections.abc import Iterator

import pytest

from tests.kit.config import Spider
from tests.kit.executors import Executor, Parameters, SpiderExecutors, check_spider
from tests.kit.extract import RuleExtractor
from tests.kit.kernel import ConfigError, ExtractError, Mask
from tests.kit.requests import Body, Link, Skipped
from tests.unit.crawling.executors.reading import page

TEXT = "s3cr3t-text"
MASK = Mask([TEXT])
PAGE = page("x")
BODY = Body(url=PAGE.url, rule="it", rule_version="v")


class LoginParameters(Parameters, frozen=True, kw_only=True):
    token: str
    keys: tuple[str, ...] = ()
    pages: int = 1
    do: str = "read"


class Login(Executor[LoginParameters]):
    """Gives what it is told to: its token, in every way there is."""

    name = "login"
    Parameters = LoginParameters

    def read(self, page, context) -> Iterator[object]:
        token, do = self.parameters.token, self.parameters.do
        if do == "fail":
            raise ExtractError("token", f"{token!r} is refused")
        if do == "break":
            raise RuntimeError(token)
        if do == "link":
            yield Link(url=f"https://a.example/?key={token}", rule="it")
        elif do == "skip":
            yield Skipped("line 1", f"has {token}")
        else:
            yield {"seen": [{"as": f"<{token}>"}], "length": len(token)}


class Known:
    """A registry of one."""

    def find(self, name):
        if name != "login":
            raise ConfigError([])
        return Login


def spider(**parameters):
    return Spider(executor="login", parameters={"token": {"secret": "api"}} | parameters)


def read(do):
    executors = SpiderExecutors(Known(), RuleExtractor())
    return list(executors.read(spider(token=TEXT, do=do), PAGE, BODY, MASK))


def test_a_reference_stands_for_a_text_wherever_a_text_is_wanted():
    assert check_spider(spider(keys=[{"secret": "b"}, "plain"]), registry=Known()) == []


def test_a_reference_where_no_text_is_wanted_is_refused_with_its_field():
    (problem,) = check_spider(spider(pages={"secret": "api"}), "spiders.x.", registry=Known())

    assert problem.field == "spiders.x.parameters.pages"


@pytest.mark.parametrize("name", ["", "../other", "other/secret", "a b", "x" * 65])
def test_a_name_that_no_secret_of_the_tenant_has_is_refused_with_its_field(name):
    problems = check_spider(spider(token={"secret": name}), registry=Known())

    assert [problem.field for problem in problems] == ["parameters.token.secret"]
    assert "up to 64 letters" in problems[0].message


def test_records_that_hold_a_secret_are_masked():
    assert read("read") == [{"seen": [{"as": "<***>"}], "length": len(TEXT)}]


def test_a_link_that_would_carry_a_secret_is_left_out():
    (skipped,) = read("link")

    assert isinstance(skipped, Skipped)
    assert "would carry a secret" in skipped.why


def test_what_is_left_out_is_named_without_the_secret():
    assert read("skip") == [Skipped("line 1", "has ***")]


@pytest.mark.parametrize("do", ["fail", "break"])
def test_an_error_quotes_no_secret_and_neither_does_its_cause(do):
    with pytest.raises(ExtractError) as caught:
        read(do)

    assert TEXT not in str(caught.value)
    assert "***" in str(caught.value)
    assert caught.value.__cause__ is None


def test_where_nobody_reads_secrets_the_parameter_is_named():
    executors = SpiderExecutors(Known(), RuleExtractor())

    with pytest.raises(ExtractError, match=r"parameters\.token: is the secret 'api'.*--remote"):
        list(executors.read(spider(), PAGE, BODY))
