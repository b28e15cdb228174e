"""The journey's step about trials: what it takes for shown, and what it does not."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from infra.localstack import settings
from infra.localstack.trial import tried
from infra.smoke.deployment import Deployment
from infra.steps import Step, StepError
from tests.kit.kernel import names
from tests.kit.sdk import FetchFailure, TriedRule

PAGE = "http://site.test/1"
GONE = FetchFailure(reason="PageGone", message="answered 404", status=404, retryable=False)


@dataclass
class Cloud:
    """The API and Lambda, as far as the step asks them."""

    records: tuple[dict[str, Any], ...] = ({"title": "one"},)
    error: FetchFailure | None = None
    told: dict[str, str] = field(default_factory=lambda: {names.ENV_STAGE: "localstack"})

    def try_rule(self, biz: str, rule: str, *, url: str) -> TriedRule:
        assert (biz, rule, url) == (settings.BIZ, settings.RULE, PAGE)
        return TriedRule(
            version="v", records=self.records, record_count=len(self.records), error=self.error
        )

    def client(self, service: str) -> "Cloud":
        assert service == "lambda"
        return self

    def get_function_configuration(self, *, FunctionName: str) -> dict[str, Any]:  # noqa: N803
        assert FunctionName == "crawlfleet-localstack-trials"
        return {"Environment": {"Variables": self.told}}


def seen(cloud: Cloud) -> str:
    step = Step("trial", lambda _: None)
    tried(Deployment(stage="localstack", access=cloud, outputs={}, states={}), cloud, PAGE, step)
    return str(step.seen)


def test_a_trial_that_yields_records_by_a_function_without_stores_is_shown():
    assert "1 records of one page" in seen(Cloud())


@pytest.mark.parametrize(
    ("cloud", "said"),
    [
        (Cloud(records=()), "yields 0 records"),
        (Cloud(error=GONE), "answered 404"),
        (Cloud(told={names.ENV_REDIS_URL: "redis://x"}), "is told CRAWLFLEET_REDIS_URL"),
    ],
    ids=["nothing", "failed", "told"],
)
def test_a_trial_that_fails_or_is_told_of_a_store_is_not(cloud: Cloud, said: str):
    with pytest.raises(StepError, match=said):
        seen(cloud)
