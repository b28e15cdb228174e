"""Pools in the environment: what infrastructure says of them, and all that may be wrong with it."""

import json

import pytest

from tests.kit.kernel import MOST_POOLS, ConfigError, Settings, names

LARGE = {"name": "large", "memory_mb": 3008, "function": "consumer-large", "ceiling": 4}


def read(**variables: str) -> Settings:
    return Settings.from_environment({names.ENV_STAGE: "local", **variables})


def test_without_pools_there_is_the_usual_one():
    settings = read(**{names.ENV_CONSUMER_FUNCTION: "c", names.ENV_CONSUMER_CEILING: "5"})

    assert (settings.pools, settings.pool, settings.source_address) == ((), "main", None)
    [main] = settings.every_pool
    assert (main.name, main.function, main.ceiling) == ("main", "c", 5)


def test_pools_are_read_with_the_one_that_this_worker_is_of():
    settings = read(
        **{
            names.ENV_POOLS: json.dumps([LARGE, {**LARGE, "name": "far", "region": "eu"}]),
            names.ENV_POOL: "far",
            names.ENV_SOURCE_ADDRESS: "127.0.0.2",
        }
    )

    assert [pool.name for pool in settings.every_pool] == ["main", "large", "far"]
    assert (settings.pool, settings.source_address) == ("far", "127.0.0.2")
    assert settings.pools[0].memory_mb == 3008


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        ("{", "no JSON list of pools"),
        ("{}", "no JSON list of pools"),
        ([{"nmae": "far"}], "nmae"),
        ([{**LARGE, "name": "main"}], "no name of a pool: 'main'"),
        ([{**LARGE, "name": "fleet"}], "no name of a pool: 'fleet'"),
        ([{**LARGE, "name": "No"}], "no name of a pool: 'No'"),
        ([LARGE, LARGE], "large a second time"),
        ([{**LARGE, "function": "a b"}], "no function name or ARN"),
        ([{**LARGE, "ceiling": 0}], "not within 1 to"),
        ([{**LARGE, "memory_mb": 0}], "below 1"),
        ([{**LARGE, "name": f"p{n}"} for n in range(MOST_POOLS + 1)], "the most is 16"),
    ],
)
def test_pools_that_cannot_be_are_refused_with_the_reason(pools, said):
    with pytest.raises(ConfigError) as refused:
        read(**{names.ENV_POOLS: pools if isinstance(pools, str) else json.dumps(pools)})

    [problem] = refused.value.problems
    assert problem.field == names.ENV_POOLS
    assert said in problem.message


@pytest.mark.parametrize("region", ["eu-west-1", "ap-southeast-3", "us-gov-east-1", "cn-north-1"])
def test_a_worker_away_from_home_is_reported_where_parameters_and_secrets_are(region):
    assert read(**{names.ENV_HOME_REGION: region}).home_region == region
    assert read().home_region is None


@pytest.mark.parametrize("region", ["Ireland", "eu-west", "eu-west-1.evil.example", "eu_west_1"])
def test_what_is_no_region_is_refused(region):
    with pytest.raises(ConfigError) as refused:
        read(**{names.ENV_HOME_REGION: region})

    [problem] = refused.value.problems
    assert (problem.field, "region" in problem.message) == (names.ENV_HOME_REGION, True)


def test_all_errors_are_reported_at_once():
    wrong = [{**LARGE, "name": "main", "ceiling": 0}, {**LARGE, "function": ""}]
    with pytest.raises(ConfigError) as refused:
        read(
            **{
                names.ENV_POOLS: json.dumps(wrong),
                names.ENV_POOL: "fleet",
                names.ENV_SOURCE_ADDRESS: "here",
            }
        )

    found = {problem.field: problem.message for problem in refused.value.problems}
    assert set(found) == {names.ENV_POOLS, names.ENV_POOL, names.ENV_SOURCE_ADDRESS}
    assert found[names.ENV_POOLS].count(";") == 2
