"""The events stack: time, as the fleet sees it, and what must not last."""

from collections.abc import Iterator, Mapping

from aws_cdk import Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import names
from infra.components.clock_rule import ClockRule
from infra.components.fleet_alarms import FleetAlarms
from infra.components.fleet_dashboard import FleetDashboard
from infra.components.scale_up import ScaleUp
from infra.components.spider_rules import SpiderRules
from infra.fleet import FLEET
from infra.stacks.place import place
from infra.stacks.state_stack import StateStack
from infra.stages import Stage as Settings


class EventsStack(Stack):
    """Composes the clocks of ``fleet.py``, the alarms on what the monitor emits, the dashboard."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Settings,
        functions: Mapping[str, lambda_.IFunction],
        dead_letters: Mapping[str, sqs.IQueue],
        api: apigateway.RestApi,
        state: StateStack,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            env=place(stage.region),
            description=f"Crawlfleet {stage.name}: clocks, alarms",
            termination_protection=stage.protects("events"),
        )
        for clock in FLEET.clocks:
            ClockRule(
                self, clock.name, clock=clock, stage=stage, function=functions[clock.function]
            )
        functions = {**functions, **dict(self._workers(stage))}
        if stage.spider_rules:
            SpiderRules(
                self,
                "starts",
                stage=stage,
                rules=stage.spider_rules,
                scheduler=functions[names.SCHEDULER],
            )
        alarms = FleetAlarms(
            self,
            "alarms",
            stage=stage,
            functions=functions,
            dead_letters=dead_letters,
            api=api,
            notifications=state.notifications,
        )
        ScaleUp(
            self,
            "scale-up",
            stage=stage,
            scheduler=functions[names.SCHEDULER],
            findings=alarms.findings,
            notifications=state.notifications,
        )
        if stage.dashboard:
            FleetDashboard(
                self,
                "dashboard",
                stage=stage,
                functions=functions,
                dead_letters=dead_letters,
                api=api,
            )

    def _workers(self, stage: Settings) -> Iterator[tuple[str, lambda_.IFunction]]:
        """The functions of the pools at home, by their names.

        A reference would keep a pool from being taken away or moved: the stack that has it is
        deployed before this one, which would still refer to it.
        """
        for pool in stage.pools:
            if not pool.region:
                name = names.function_name(stage.name, pool.function)
                yield pool.function, lambda_.Function.from_function_name(self, pool.function, name)
