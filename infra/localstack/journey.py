"""The journey: deploy, configure, crawl 500 pages, scale, alarm, notify, update, destroy.

Each function is one step, and says what it saw; what it needs from earlier ones it is given.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from botocore.exceptions import ClientError

from crawlfleet import __version__
from crawlfleet.kernel import metric_names, names
from crawlfleet.monitoring.incidents.kinds import ADVICE, Kind
from crawlfleet.sdk import Client
from infra.aws_access import Access
from infra.localstack import settings
from infra.localstack.bids import Bids
from infra.localstack.cdk import Cdk, gaps
from infra.localstack.clients import LocalStackAccess
from infra.localstack.embedded_metrics import EmbeddedMetrics
from infra.localstack.guarded import Guarded, drop_token, guarded_site, keep_token, logged, stored
from infra.localstack.hand import Hand
from infra.localstack.inbox import Inbox, alarm_name, ends, rings
from infra.localstack.jobs import Jobs
from infra.localstack.leftovers import KINDS, standing
from infra.localstack.load import Load
from infra.localstack.own_code import OwnCode
from infra.localstack.readback import Readback, after_the_crawl
from infra.localstack.release import next_release
from infra.localstack.ringing import verdict
from infra.localstack.scene import Scene
from infra.localstack.site import urls
from infra.localstack.starts import Starts
from infra.localstack.trial import tried
from infra.localstack.workforce import Workforce, now_ms
from infra.smoke import checks, pages
from infra.smoke.deployment import Deployment, find_deployment, log_group, stack_name
from infra.smoke.logs import entries
from infra.stages import STAGES
from infra.steps import Step, StepError, Steps, wait_for

STAGE: Final = "localstack"
#: The finding that is provoked, and its alarm.
_KIND: Final = Kind.STORAGE

#: Pages that a schedule has.
_SCHEDULED: Final = 5
_SOON: Final = 30.0
_TICK: Final = 90.0
_CRAWL: Final = 240.0
#: LocalStack judges an alarm when it is made, and then each time that its periods are over.
_ALARM: Final = 300.0


@dataclass
class Journey:
    """The state that the steps share.

    Attributes:
        scene: What it stands on.
        steps: Where it is shown.
        cdk: The command.
        assembly: What is deployed first.
        count: How many pages are crawled.
    """

    scene: Scene
    steps: Steps
    cdk: Cdk
    assembly: Path
    count: int
    access: Access = field(init=False)
    hand: Hand = field(init=False)
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.access = LocalStackAccess(self.scene.environment)
        self.hand = Hand(self.access, STAGE)
        self._began = datetime.now(UTC)

    @cached_property
    def deployment(self) -> Deployment:
        """The stacks that stand."""
        return find_deployment(STAGE, self.access)

    @property
    def fetch_context(self) -> pages.FetchContext:
        """The pages."""
        found = urls(self.scene.site_url, self.count)
        return pages.FetchContext(biz=settings.BIZ, rule=settings.RULE, urls=found)

    def run(self) -> None:
        """Run all steps of the journey in order.

        Raises:
            StepError: a step has failed.
        """
        with self.steps.step("the sample configuration") as step:
            step.saw(f"revision {self._push()}")
        with self.steps.step("deploying") as step:
            self._deploy(step)
        groups = [log_group(STAGE, name) for name in (names.MONITOR, names.SCHEDULER)]
        with (
            EmbeddedMetrics(self.access, groups) as metrics,
            Inbox(self.deployment) as inbox,
            self.deployment.client() as client,
        ):
            self._use(client, metrics, inbox)
        with self.steps.step("destroying") as step:
            self._destroy(step)

    def _destroy(self, step: Step) -> None:
        # What is not found while it stands would not be missed by whoever finds nothing afterwards.
        if unseen := set(KINDS) - set(standing(self.access, STAGE)):
            raise StepError(
                f"nothing is found of {', '.join(sorted(unseen))}, which the stage has",
                "infra/localstack/leftovers.py says by what names they are looked for.",
            )
        self.cdk.destroy(self.assembly)
        if left := standing(self.access, STAGE):
            raise StepError(
                f"still there are {'; '.join(f'{kind} {each}' for kind, each in left.items())}",
                "The stack's events say why they could not be deleted.",
            )
        step.saw(f"of {len(KINDS)} kinds of resources nothing is left")

    def _use(self, client: Client, metrics: EmbeddedMetrics, inbox: Inbox) -> None:
        workers = Workforce(self.deployment, client, self.hand)
        with self.steps.step("another configuration, without a deployment") as step:
            self._reconfigure(step, settings.BUSY, settings.FULL)
        with self.steps.step("an idle fleet, by a tick of the rule") as step:
            workers.idle(step)
        fetch_context = self.fetch_context
        with self.steps.step(f"{self.count} pages that wait") as step:
            began_ms = now_ms()
            workers.hold()
            ids = pages.submit(self.deployment, client, fetch_context)
            # A look at once; the minute's are more.
            self.hand.invoke(names.MONITOR)
            step.saw("no worker may run, and no tick comes")
        with self.steps.step("scaling up, by an alarm on its metric") as step:
            workers.scale_up(step, began_ms)
            # And one while all workers are there.
            self.hand.invoke(names.MONITOR)
        with self.steps.step("the crawl") as step:
            pages.wait_done(self.deployment, client, fetch_context, ids, _CRAWL, step)
            step.saw(pages.records(client, fetch_context, ids))
            step.saw(pages.tracking(client, fetch_context, ids))
        # Before the scheduler is invoked by hand: what it is seen to do now, the rule has it do.
        with self.steps.step("ticks of the rules") as step:
            self._ticked(step)
        with self.steps.step("metrics, read back") as step:
            self._read_back(metrics, step)
        starts = Starts(self._jobs(client), self.hand)
        with self.steps.step("a rule of one's own, by an event") as step:
            starts.by_event(step)
            # These have the time of the next step: the one to fire, the other to be kept.
            starts.enable_clock(step)
            starts.keep_event()
        with self.steps.step("an update under load") as step:
            self._update(client, step, fetch_context)
        with self.steps.step("a rule of one's own, by its clock") as step:
            starts.by_clock(step)
        with self.steps.step("an event that was kept, by a tick") as step:
            starts.kept_event(step)
        with self.steps.step("a job by bidding") as step:
            self._reconfigure(step, settings.BUSY, settings.FULL, settings.BIDDING)
            Bids(self._jobs(client)).placed(step)
            self._reconfigure(step, settings.BUSY, settings.FULL)
        self._use_more_bizs(client)
        self._let_go(client, workers, fetch_context)
        with self.steps.step("people and machines are told") as step:
            self._reported(inbox, step)
        with self.steps.step("the recovery") as step:
            self._recovered(inbox, step)
        starts.restore_clock()
        for one in checks.CHECKS:
            with self.steps.step(one.name) as step:
                if one.look is checks.alarms:
                    step.saw(verdict(checks.alarm_states(self.deployment)))
                else:
                    step.saw(one.look(self.deployment))

    def _let_go(
        self, client: Client, workers: Workforce, fetch_context: pages.FetchContext
    ) -> None:
        """The steps of a fleet that is let go, and called for again by what little there is."""
        with self.steps.step("scaling down") as step:
            workers.scale_down(step)
        with self.steps.step("the wake-up, by a submission") as step:
            few = replace(fetch_context, urls=fetch_context.urls[:_SCHEDULED])
            ids = pages.submit(self.deployment, client, few)
            workers.woken(step)
            pages.wait_done(self.deployment, client, few, ids, _CRAWL, step)
            workers.gone()
        with self.steps.step("a schedule, and a tick of the rule alone") as step:
            workers.by_a_tick_alone(step, fetch_context.urls[:_SCHEDULED])

    def _jobs(self, client: Client) -> Jobs:
        return Jobs(self.deployment, client, self.scene.site_url)

    def _use_more_bizs(self, client: Client) -> None:
        """The steps of a trial, and of bizs beside the sample's: own code, a token, own states."""
        with self.steps.step("a trial of a rule") as step:
            tried(self.deployment, client, self.fetch_context.urls[0], step)
        with self.steps.step("code of one's own") as step:
            own_code = settings.own_code(self.scene.site_url)
            self._reconfigure(step, settings.BUSY, settings.FULL, more=own_code)
            OwnCode(self._jobs(client)).found(step)
            self._reconfigure(step, settings.BUSY, settings.FULL)
        with guarded_site(self.scene.site_url) as site:
            guarded = Guarded(
                self.deployment,
                client,
                site,
                documents=partial(stored, self.scene.mongo_uri),
                lines=partial(logged, self.deployment),
            )
            with self.steps.step("a secret in a header") as step:
                keep_token(self.deployment, site.token)
                self._reconfigure(step, settings.BUSY, settings.FULL, more=settings.guarded())
                guarded.crawled(step)
            with self.steps.step("states of a biz's own") as step:
                guarded.reviewed(step)
                self._reconfigure(step, settings.BUSY, settings.FULL)
                drop_token(self.deployment)

    def _deploy(self, step: Step) -> None:
        uri_is_in = False

        def put_uri() -> None:
            # As soon as the secret is there: the first tick wants to read it.
            nonlocal uri_is_in
            if not uri_is_in:
                uri_is_in = self._put_uri()

        outputs = self.scene.folder / "outputs.json"
        self.cdk.deploy(self.assembly, outputs, put_uri)
        put_uri()
        stacks = [stack_name(STAGE, stack) for stack in STAGES[STAGE].stacks]
        if pretended := gaps(self.access.all, stacks):
            raise StepError(
                f"LocalStack has only pretended to make {', '.join(pretended)}",
                "The stage `localstack` must do without them: tests/infra/test_localstack.py has"
                " the list of what it makes.",
            )
        step.saw(checks.stacks(self.deployment))
        step.saw(checks.functions(self.deployment))

    def _put_uri(self) -> bool:
        try:
            self.access.client("secretsmanager").put_secret_value(
                SecretId=names.node_secret(STAGE, "main"), SecretString=self.scene.mongo_uri
            )
        except ClientError:
            return False
        return True

    def _push(
        self, *changes: dict[str, Any], more: Mapping[str, str] = MappingProxyType({})
    ) -> str:
        own = settings.own_site(self.scene.site_url)
        return settings.push(self.access, STAGE, own, *changes, more=more)

    def _reconfigure(
        self,
        step: Step,
        *changes: dict[str, Any],
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        def revision() -> str:
            health = checks.asked_health(self.deployment)
            return str((health.get("deep") or {}).get("revision"))

        before = revision()
        pushed, began = self._push(*changes, more=more), time.monotonic()
        if pushed == before:
            raise StepError("the change has changed nothing", "See infra/localstack/settings.py.")
        wait_for(
            lambda: revision() == pushed,
            _SOON,
            "the new configuration is in force",
            "It is polled every few seconds; the router's log says why it is refused.",
            log_group=log_group(STAGE, names.ROUTER),
        )
        step.saw(f"in force after {time.monotonic() - began:.0f} s")

    def _update(self, client: Client, step: Step, fetch_context: pages.FetchContext) -> None:
        version = f"{__version__}+next"
        release = self.scene.folder / "next-release"
        next_release(self.assembly, release, version)
        began = time.monotonic()
        with Load(client, fetch_context.biz, settings.RULE, fetch_context.urls[:50]) as load:
            self.cdk.deploy(release, self.scene.folder / "outputs.json")
            took = time.monotonic() - began
            wait_for(
                lambda: self._version() == version,
                _TICK,
                f"version {version} answers",
                "The deployment has gone through, and the old code still answers.",
                log_group=log_group(STAGE, names.ROUTER),
            )
        self.assembly = release
        # LocalStack ends what runs when a function changes. A tick finds whoever died of it, as
        # the minute's will.
        self.hand.invoke(names.SCHEDULER)
        if load.failures:
            raise StepError(
                f"{len(load.failures)} submissions failed: {load.failures[0]}",
                "What the SDK gives up on is told to its caller; see what the router says.",
                log_group(STAGE, names.ROUTER),
            )
        step.saw(f"{len(load.ids)} pages put in during {took:.0f} s")
        pages.wait_done(self.deployment, client, fetch_context, load.ids, _CRAWL, step)
        pages.records(client, fetch_context, load.ids)
        step.saw(pages.tracking(client, fetch_context, load.ids))

    def _version(self) -> str:
        health = checks.asked_health(self.deployment)
        return str((health.get("deep") or {}).get("version"))

    def _ticked(self, step: Step) -> None:
        # An alarm calls the scheduler too, which then says "scaled"; the monitor is called by none.
        for function, word in ((names.SCHEDULER, "ticked"), (names.MONITOR, metric_names.LOOKS)):
            wait_for(
                lambda function=function, word=word: (  # type: ignore[misc]  # mypy cannot infer a lambda's default
                    self._said(function, word) > self.hand.counts[function]
                ),
                _TICK,
                f"the rule wakes the {function}",
                "Rules fire on the minute; LocalStack's log says why they do not.",
                log_group=log_group(STAGE, function),
            )
            step.saw(f"{self._said(function, word)} of the {function}")

    def _said(self, function: str, word: str) -> int:
        """Count a function's log lines with a message, or a metric, of that name."""
        found = entries(self.access, log_group(STAGE, function))
        return sum(entry.get("message") == word or word in entry for entry in found)

    def _read_back(self, metrics: EmbeddedMetrics, step: Step) -> None:
        expected = after_the_crawl(self.count, settings.WORKERS, settings.PEAK)
        read = Readback(self.access, STAGE, self._began)
        wrong: list[str] = []

        def fits() -> bool:
            wrong[:] = read.wrong(expected)
            step.now(f"{len(wrong)} of {len(expected)} do not fit yet")
            return not wrong

        try:
            wait_for(fits, _TICK, "metrics say what was done", "", log_group="")
        except StepError as error:
            raise StepError(
                f"{error.said}: {'; '.join(wrong)}",
                metrics.problem or "The lines of its log have what the monitor has seen.",
                log_group(STAGE, names.MONITOR),
            ) from error
        step.saw(f"{len(expected)} figures fit, of {metrics.values} values")

    def _reported(self, inbox: Inbox, step: Step) -> None:
        title = ADVICE[_KIND].title

        def heard() -> bool:
            notifications = inbox.look()
            step.now(f"{len(notifications)} messages")
            people = [one for one in notifications if one.topic == "people" and title in one.text]
            machines = [one.message for one in notifications if one.topic == "machines"]
            return (
                bool(people)
                and any(one.topic == "phones" and title in one.text for one in notifications)
                and any(f'"{_KIND.value}"' in one for one in machines)
                and any(rings(one, STAGE, _KIND) for one in machines)
            )

        wait_for(
            heard,
            _ALARM,
            f"people, phones and machines hear that {title}, and machines of its alarm",
            "The monitor sends the first three, the alarm the fourth; its state:"
            f" `aws cloudwatch describe-alarms --alarm-names {alarm_name(STAGE, _KIND)}`.",
            log_group=log_group(STAGE, names.MONITOR),
        )
        of_it = {one.subject for one in inbox.notifications if title in one.text and one.subject}
        step.saw("; ".join(sorted(of_it)))
        step.saw(f"{len(inbox.notifications)} messages in all")

    def _recovered(self, inbox: Inbox, step: Step) -> None:
        # A tick may see the change before we do.
        before = len(inbox.look())
        self._reconfigure(step, settings.BUSY)

        def heard() -> bool:
            self.hand.invoke(names.MONITOR)
            over = [one for one in inbox.look()[before:] if ends(one, STAGE, _KIND)]
            return {one.topic for one in over} == {"people", "phones", "machines"}

        wait_for(
            heard,
            _SOON,
            f"people, phones and machines hear that it is over that {ADVICE[_KIND].title}",
            "The monitor sends it with the first look that finds nothing.",
            log_group=log_group(STAGE, names.MONITOR),
        )
        over = [one for one in inbox.notifications[before:] if ends(one, STAGE, _KIND)]
        step.saw(next(one.subject for one in over if one.topic == "people"))
