"""The events stack: time, as the fleet sees it, and what must not last."""

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.components.clock_rule import ClockRule
from infra.components.fleet_alarms import FleetAlarms
from infra.fleet import FLEET
from infra.stages import Stage as Settings


class EventsStack(Stack):
    """Composes the clocks of ``fleet.py`` and the alarms on what the monitor emits."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Settings,
        functions: Mapping[str, lambda_.IFunction],
    ) -> None:
        super().__init__(
            scope, construct_id, description=f"Crawlfleet {stage.name}: clocks, alarms"
        )
        for clock in FLEET.clocks:
            ClockRule(
                self, clock.name, clock=clock, stage=stage, function=functions[clock.function]
            )
        FleetAlarms(self, "alarms", stage=stage)
