"""The API's call that tries a rule."""

from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import inputs
from crawlfleet.edge.answers import shown
from crawlfleet.edge.call import Call
from crawlfleet.edge.trial_inputs import trial_in
from crawlfleet.edge.trial_views import tried_view


class TrialCalls(Call):
    """Try a rule."""

    def _try_rule(self, tenant: str, biz: str) -> Response[str]:
        wanted = trial_in(inputs.body_of(self._event))
        return shown(200, tried_view(self._operations.try_rule(tenant, biz, wanted)))
