import os

import pytest

from tests.kit.kernel import ConfigError, Need, Settings, names

WHOLE = {
    names.ENV_STAGE: "aws-large",
    names.ENV_LOG_LEVEL: "WARNING",
    names.ENV_REDIS_URL: "rediss://cache.example:6379",
    names.ENV_REDIS_SECRET: "crawlfleet/aws-large/redis",
    names.ENV_NODE_SECRET: "crawlfleet/aws-large/nodes/{node}",
    names.ENV_CONSUMER_FUNCTION: "crawlfleet-aws-large-consumer",
    names.ENV_CONSUMER_CEILING: "50",
    names.ENV_ID_ISSUER_FUNCTION: "arn:aws:lambda:eu-west-1:123456789012:function:id-issuer:live",
    names.ENV_TRIALS_FUNCTION: "crawlfleet-aws-large-trials",
    names.ENV_DEFAULT_API_KEY_ID: "abc123",
}


def mistakes(environment, needs=()):
    with pytest.raises(ConfigError) as caught:
        Settings.from_environment(environment, needs)
    return {problem.field: problem.message for problem in caught.value.problems}


def test_a_whole_environment_is_read():
    settings = Settings.from_environment(WHOLE, needs=tuple(Need))

    assert settings == Settings(
        stage="aws-large",
        log_level="WARNING",
        redis_url="rediss://cache.example:6379",
        redis_secret="crawlfleet/aws-large/redis",
        node_secret_template="crawlfleet/aws-large/nodes/{node}",
        consumer_function="crawlfleet-aws-large-consumer",
        consumer_ceiling=50,
        id_issuer_function=WHOLE[names.ENV_ID_ISSUER_FUNCTION],
        trials_function="crawlfleet-aws-large-trials",
        default_api_key_id="abc123",
    )
    assert settings.node_secret("east") == names.node_secret("aws-large", "east")


def test_what_nobody_needs_may_be_missing():
    assert Settings.from_environment({names.ENV_STAGE: "local"}) == Settings(stage="local")


def test_an_empty_variable_is_an_unset_one():
    settings = Settings.from_environment(WHOLE | {names.ENV_REDIS_SECRET: " "}, tuple(Need))

    assert settings.redis_secret is None


def test_every_missing_variable_is_named_at_once():
    assert mistakes({}, tuple(Need)) == dict.fromkeys(
        [
            names.ENV_STAGE,
            names.ENV_REDIS_URL,
            names.ENV_NODE_SECRET,
            names.ENV_CONSUMER_FUNCTION,
            names.ENV_CONSUMER_CEILING,
            names.ENV_ID_ISSUER_FUNCTION,
            names.ENV_TRIALS_FUNCTION,
        ],
        "is not set",
    )


def test_every_wrong_variable_is_named_at_once_needed_or_not():
    found = mistakes(
        {
            names.ENV_STAGE: "Prod!",
            names.ENV_LOG_LEVEL: "loud",
            names.ENV_REDIS_URL: "http://cache",
            names.ENV_REDIS_SECRET: "no spaces please",
            names.ENV_NODE_SECRET: "crawlfleet/aws-large/nodes",
            names.ENV_CONSUMER_FUNCTION: "a function",
        }
    )

    assert len(found) == 6
    assert "{node}" in found[names.ENV_NODE_SECRET]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "rediss+cluster"])
def test_the_scheme_of_the_redis_address_says_whether_it_is_a_cluster_and_speaks_tls(scheme):
    found = Settings.from_environment({**WHOLE, names.ENV_REDIS_URL: f"{scheme}://localhost:6379"})

    assert found.redis_url == f"{scheme}://localhost:6379"


@pytest.mark.parametrize("host", ["10.0.0.7", "cache.example", "192.168.1.9", "[2001:db8::7]"])
@pytest.mark.parametrize("scheme", ["redis", "redis+cluster"])
def test_a_redis_on_another_machine_needs_tls(scheme, host):
    url = f"{scheme}://{host}:6379"

    found = mistakes({names.ENV_STAGE: "s", names.ENV_REDIS_URL: url})

    assert "needs TLS" in found[names.ENV_REDIS_URL]
    assert names.ENV_PLAIN_STORES in found[names.ENV_REDIS_URL]


@pytest.mark.parametrize("plain", ["cache", "mongo.internal, cache", "*"])
def test_a_host_that_the_operator_names_is_reached_without_tls(plain):
    given = {
        **WHOLE,
        names.ENV_REDIS_URL: "redis://cache:6379",
        names.ENV_PLAIN_STORES: plain,
    }

    assert Settings.from_environment(given).redis_url == "redis://cache:6379"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "[::1]", "localhost"])
def test_a_redis_on_this_machine_needs_none(host):
    url = f"redis://{host}:6379"

    assert Settings.from_environment({**WHOLE, names.ENV_REDIS_URL: url}).redis_url == url


def test_what_is_no_host_is_no_plain_store():
    found = mistakes({names.ENV_STAGE: "s", names.ENV_PLAIN_STORES: "redis://cache"})

    assert "is no list of hosts" in found[names.ENV_PLAIN_STORES]


@pytest.mark.parametrize(
    "url",
    [
        *("redis://", "redis://host:x", "redis://h:99999", "rediss://[::1", "h"),
        *("redis+cluster://", "cluster://h:1", "redis+sentinel://h:1"),
    ],
)
def test_a_redis_address_without_a_host_or_with_a_wrong_port_is_refused(url):
    found = mistakes({names.ENV_STAGE: "s", names.ENV_REDIS_URL: url})

    assert list(found) == [names.ENV_REDIS_URL]


def test_a_password_in_the_redis_address_is_refused_and_never_quoted():
    found = mistakes({names.ENV_STAGE: "s", names.ENV_REDIS_URL: "redis://:hunter2@host:1"})

    assert "holds a password" in found[names.ENV_REDIS_URL]
    assert "hunter2" not in str(found)


def test_the_process_environment_is_the_default(monkeypatch):
    for name in [name for name in os.environ if name.startswith("CRAWLFLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv(names.ENV_STAGE, "from-process")

    assert Settings.from_environment().stage == "from-process"


def test_topics_are_arns_and_may_be_unset():
    arn = "arn:aws:sns:eu-west-1:123456789012:crawlfleet-aws-large-people"
    named = Settings.from_environment(
        {
            names.ENV_STAGE: "x",
            names.ENV_PEOPLE_TOPIC: arn,
            names.ENV_PHONES_TOPIC: f"{arn}-phones",
            names.ENV_MACHINES_TOPIC: "",
        }
    )

    assert (named.people_topic, named.machines_topic) == (arn, None)
    assert named.phones_topic == f"{arn}-phones"
    refused = mistakes({names.ENV_STAGE: "x", names.ENV_MACHINES_TOPIC: "https://x"})
    assert refused.keys() == {names.ENV_MACHINES_TOPIC}
    assert "'https://x'" in refused[names.ENV_MACHINES_TOPIC]


@pytest.mark.parametrize("place", ["169.254.79.129", "here:99999", "udp:here:2000", ":2000"])
def test_the_daemon_of_x_ray_has_a_host_and_a_port(place):
    assert mistakes(WHOLE | {names.ENV_XRAY_DAEMON: place}).keys() == {names.ENV_XRAY_DAEMON}


@pytest.mark.parametrize("ceiling", ["0", "-1", "many", "1e3", "100001", "9" * 5_000, "²"])
def test_a_ceiling_is_a_number_of_invocations(ceiling):
    found = mistakes(WHOLE | {names.ENV_CONSUMER_CEILING: ceiling})

    assert found.keys() == {names.ENV_CONSUMER_CEILING}
    assert len(found[names.ENV_CONSUMER_CEILING]) < 100
