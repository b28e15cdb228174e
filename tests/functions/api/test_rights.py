"""Rights follow use: what handlers ask of AWS they may ask, and what they may ask they do.

The rights are those of ``tests/infra/rights_aws-large.json``, the stage that has everything; a test
there compares it with the templates. What is asked is recorded while each function does everything
that needs AWS.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from secrets import token_hex
from typing import Any

import boto3
import msgspec
import pytest
import redis

from tests.functions.apps.test_clock import LOOK, TICK
from tests.functions.calls import Call, Calls, recorded
from tests.functions.crawling.test_follow import a_web
from tests.functions.http import Answer, ask, event, submit
from tests.infra.rights import read
from tests.kit.apps import now, pool_scaling
from tests.kit.config import write_tree
from tests.kit.incidents import Listener
from tests.kit.kernel import Pool, names
from tests.kit.topics import Topic
from tests.kit.worlds.functions import STAGE, Context, World, a_world, biz
from tests.waiting import eventually

TOKEN = "of-this-test-alone"
#: What is done in a function's name by somebody else, so that no code of ours asks for it.
BY_OTHERS = {
    "apigateway:PUT": "API Gateway tags a key that is being made",
    "ec2:": "Lambda attaches the function to the network; the code is denied it",
    "kms:": "SNS encrypts what is published, with the publisher's rights",
    "logs:": "Lambda writes what the function prints",
    "sqs:": "Lambda keeps the events that it gave up on",
    "xray:": "Lambda sends the traces",
}
#: One call is judged by where it begins and by what lies below: both are needed for it.
BELOW = ("ssm:GetParametersByPath", "/crawlfleet/STAGE/*")
#: Functions of the version before ask for it while a deployment replaces them.
BY_OLDER = ("ssm:GetParameter", "/crawlfleet/STAGE/revision")


EVERY = (*names.FUNCTIONS, names.OPERATORS)
#: The stage's plan in the list of rights.
PLAN = "<RestApiDefaultPlan>"


def listed() -> dict[str, set[Call]]:
    """Actions and on what, by function."""
    found: dict[str, set[Call]] = {}
    for holder, rights in read("aws-large").items():
        name = holder.removeprefix("crawlfleet-STAGE-")
        if name in EVERY:
            # Not what is denied, nor who takes the role on.
            found[name] = {(one["allow"], one["on"]) for one in rights if "allow" in one}
    return found


def as_listed(call: Call) -> Call:
    """A call in the words of the list."""
    action, about = call
    if topic := re.search(r":crawlfleet-test-(people|phones|machines)$", about):
        return action, f"<Topic{topic[1].title()}>"
    return action, re.sub(r"^(/?crawlfleet[-/])test\b", r"\1STAGE", about)


@pytest.fixture(scope="module")
def made(own_redis: str, mongo_uri: str) -> Iterator[dict[str, set[Call]]]:
    """Yield the AWS calls of each function after all functions have done everything."""
    with a_world(own_redis, mongo_uri) as world, pytest.MonkeyPatch.context() as patch:
        secret = f"crawlfleet/{STAGE}/redis"
        world.secrets.create_secret(Name=secret, SecretString=TOKEN)
        people, phones, machines = (Topic(names.topic_name(STAGE, who)) for who in Listener)
        patch.setenv(names.ENV_REDIS_SECRET, secret)
        patch.setenv(names.ENV_PEOPLE_TOPIC, people.arn)
        patch.setenv(names.ENV_PHONES_TOPIC, phones.arn)
        patch.setenv(names.ENV_MACHINES_TOPIC, machines.arn)
        large = Pool(
            name="large", memory_mb=3008, function=f"crawlfleet-{STAGE}-consumer-large", ceiling=10
        )
        patch.setenv(names.ENV_POOLS, json.dumps([msgspec.to_builtins(large)]))
        world.redis.config_set("requirepass", TOKEN)
        world.redis.close()
        world.redis = redis.Redis.from_url(own_redis, password=TOKEN)
        try:
            world.end_environments()
            with recorded(world) as calls, a_web() as web:
                use(world, calls, web.url)
                plan = manage(world, patch)
        finally:
            world.redis.config_set("requirepass", "")

        def in_words(call: Call) -> Call:
            action, about = as_listed(call)
            return action, about.replace(plan, PLAN)

        yield {name: {in_words(call) for call in each} for name, each in calls.made.items()}


SECRET_HEADER = {"headers": {"Authorization": {"secret": "api"}}}


def use(world: World, calls: Calls, site: str) -> None:
    """Have each function do all that it needs AWS for."""
    rule: dict[str, Any] = {"fields": {"title": {"css": "title"}}, "follow": [{"css": "a[href]"}]}
    world.fresh(
        {
            "acme": {
                # Ids that are counted come from MongoDB, whose address the id-issuer needs for it.
                "docs": biz({"page": rule}, id_kind="counter", trace_share=1.0),
                "shop": biz(
                    collection="shop",
                    fetch={"proxies": "pool", "headers": {"Authorization": {"secret": "api"}}},
                ),
            }
        },
        stage={
            "proxies": {"pool": {"secret": names.proxy_secret(STAGE, "pool")}},
            "otlp_endpoint": "http://127.0.0.1:9",
            "otlp_headers": {"Authorization": {"secret": "vendor"}},
            "fleet": {"requests_per_consumer": 1, "max_consumers": 4, "idle_seconds": 0.0},
            "thresholds": {"storage_bytes": 1},
            "alarms": {"bad_looks": 1},
            "pools": {"large": {"min_consumers": 1, "max_consumers": 2}},
        },
    )
    # A stage that was published before there were snapshots is read document by document.
    ssm = boto3.client("ssm")
    for number in range(2):
        ssm.delete_parameters(Names=[f"/crawlfleet/{STAGE}/{names.CONFIG_SNAPSHOT}/{number}"])
    # The router has ids issued and wakes a worker; one that has no time left calls for another.
    submit(world, *(f"{site}/{n}" for n in range(4)))
    world.call(names.SCHEDULER, TICK)
    world.redis.delete("cf:{fleet}:wakes")
    world.call(names.CONSUMER, {}, Context(seconds=20))
    # So does one that finds the places of another pool empty.
    world.redis.delete("cf:{fleet}:wakes:large")
    with calls.of(names.CONSUMER):
        elsewhere = pool_scaling(world.parts[-1]).elsewhere
        assert elsewhere["large"].replace_missing(now) == 1
    world.end_environments()
    # The scheduler has ids issued for what is due.
    schedule = {"cron": "* * * * *", "rule": "page", "urls": [f"{site}/5"]}
    answer = ask(world, "PUT", "/v1/docs/schedules/minutely", schedule)
    assert answer.status == 200, answer.text
    due = datetime.fromisoformat(answer.json["next_at"])
    world.clocks[names.SCHEDULER] = lambda: due
    assert world.call(names.SCHEDULER, TICK)["fires"] == 1
    asked = "lambda:InvokeFunction", names.function_name(STAGE, names.ID_ISSUER)

    # Its tasks are made by whoever has the lock for it, which is given each half second at most: an
    # earlier tick may have had it a moment ago.
    def issued() -> bool:
        if asked in calls.made[names.SCHEDULER]:
            return True
        world.call(names.SCHEDULER, TICK)
        return False

    eventually(issued, what="tasks of the schedule's job, which need ids")
    world.clocks.clear()
    # A worker has ids issued for links, reads a tenant's secret, and asks for proxies; there are
    # none, and it may know.
    api = names.tenant_secret(STAGE, world.tenants["acme"], "api")
    world.secrets.create_secret(Name=api, SecretString="Bearer x")
    world.end_environments()
    submit(world, f"{site}/1", biz="shop")
    world.work()
    # The router reads for a trial what that needs, and has it tried by what may read nothing.
    world.end_environments()
    proxies = names.proxy_secret(STAGE, "pool")
    world.secrets.create_secret(Name=proxies, SecretString="http://127.0.0.1:9")
    trial = ask(world, "POST", "/v1/shop/rules/try", {"rule": "page", "url": f"{site}/1"})
    assert trial.json["error"]["reason"] == "ConnectFailed", trial.text
    world.call(names.TRIALS, {"health": True})

    # The monitor tells all topics, once it has its turn: modules share the book of incidents.
    def reported() -> bool:
        world.call(names.MONITOR, LOOK)
        return len([call for call in calls.made[names.MONITOR] if call[0] == "sns:Publish"]) == 3

    eventually(reported, what="messages about a disk that is full")


def manage(world: World, patch: pytest.MonkeyPatch) -> str:
    """Have an operator add, change and remove a tenant; the id of the stage's plan."""
    gateway = boto3.client("apigateway", region_name="eu-west-1")
    plan = gateway.create_usage_plan(name=f"crawlfleet-{STAGE}-default")["id"]
    default = gateway.create_api_key(name="default", enabled=True)["id"]
    gateway.create_usage_plan_key(usagePlanId=plan, keyId=default, keyType="API_KEY")
    patch.setenv(names.ENV_KEYS_REGION, "eu-west-1")
    patch.setenv(names.ENV_DEFAULT_API_KEY_ID, default)

    def call(method: str, path: str, body: dict[str, Any]) -> None:
        made = event(method, f"/v1/fleet/tenants{path}", body, key=default)
        answer = Answer(world.call(names.OPERATORS, made))
        assert answer.status < 300, answer.text

    world.end_environments()
    call("POST", "", {"name": "newcomer"})
    # What takes slots of the snapshot leaves them with its biz.
    large = biz(collection="newcomer", description=token_hex(20_000))
    write_tree(world.ssm, STAGE, {"bizs/newcomer/docs": json.dumps(large)})
    secret = names.tenant_secret(STAGE, "newcomer", "token")
    world.secrets.create_secret(Name=secret, SecretString="hidden")
    call("POST", "/newcomer/rotate-key", {})
    for minutes in (0, 5, 10, 15):
        at = now() + timedelta(minutes=minutes)
        world.clocks[names.ROUTER] = lambda at=at: at
        world.end_environments()
        call("POST", "/newcomer/remove", {"delete": True})
    return str(plan)


def used(made: dict[str, set[Call]], function: str, right: Call) -> bool:
    return any(
        right[0] == action and fnmatchcase(about, right[1])
        for action, about in made.get(function, ())
    )


@pytest.mark.parametrize("function", EVERY)
def test_each_call_of_a_function_has_its_right(made: dict[str, set[Call]], function: str):
    rights = listed()[function]

    without = {
        (action, about)
        for action, about in made.get(function, set())
        if not any(action == may and fnmatchcase(about, on) for may, on in rights)
    }
    assert without == set()


@pytest.mark.parametrize("function", EVERY)
def test_each_right_of_a_function_is_used(made: dict[str, set[Call]], function: str):
    own = {right for right in listed()[function] if not right[0].startswith(tuple(BY_OTHERS))}

    assert {right for right in own - {BELOW, BY_OLDER} if not used(made, function, right)} == set()


def test_what_others_do_in_a_functions_name_is_in_the_list():
    actions = {action for rights in listed().values() for action, _ in rights}

    for prefix in BY_OTHERS:
        assert any(action.startswith(prefix) for action in actions)
    assert [name for name, rights in listed().items() if BELOW not in rights] == [names.TRIALS]
