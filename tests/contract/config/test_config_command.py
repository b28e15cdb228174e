"""``crawlfleet config`` from folder to SSM and back, as people and scripts meet it."""

import io
import json
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner

from tests.kit.broken_servers import broken_server
from tests.kit.cli import program, push_folder, read_folder, stage_client, validate_folder
from tests.kit.config import SsmConfig, read_documents, write_tree
from tests.kit.kernel import ConfigError

SHOP = Path(__file__).parents[3] / "samplesconfig" / "shop"


@pytest.fixture
def run(aws):
    def invoke(*arguments, answer=None):
        return CliRunner().invoke(program, ["config", *map(str, arguments)], input=answer)

    return invoke


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "mine"
    for file in (file for file in SHOP.rglob("*") if file.is_file()):
        copy = place / file.relative_to(SHOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    return place


def edit(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_a_folder_is_pushed_pulled_and_the_same(run, folder, tmp_path):
    pushed = run("push", folder, "--stage", "aws-large", "--yes")
    pulled = run("pull", tmp_path / "copy", "--stage", "aws-large")
    compared = run("diff", tmp_path / "copy", "--stage", "aws-large")

    assert pushed.exit_code == pulled.exit_code == compared.exit_code == 0
    assert "3 documents changed" in pushed.output
    assert read_folder(tmp_path / "copy") == read_folder(folder)
    assert compared.output == ""


def test_what_stays_and_no_longer_fits_is_distinguished_from_the_folder(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "bizs/acme/shop.yaml").unlink()
    edit(folder / "stage.yaml", "  - east\n", "")

    refused = run("push", folder, "--stage", "aws-large", "--yes")

    assert refused.exit_code == 2
    assert (
        "'east' is no node of the stage; it has main (not in this folder: --delete removes it)"
        in refused.stderr
    )
    assert run("push", folder, "--stage", "aws-large", "--yes", "--delete").exit_code == 0


def test_a_second_push_has_nothing_to_do(run, folder):
    first = json.loads(run("push", folder, "--stage", "aws-large", "--yes", "--json").stdout)
    second = json.loads(run("push", folder, "--stage", "aws-large", "--json").stdout)

    assert sorted(first["written"]) == ["bizs/acme/shop", "stage", "tenants/acme"]
    assert second == {"revision": first["revision"], "written": [], "deleted": []}


def test_a_push_shows_what_changes_and_asks(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    edit(folder / "bizs/acme/shop.yaml", "per_host: 4", "per_host: 7")
    revision = json.loads(run("push", SHOP, "--stage", "aws-large", "--json").stdout)["revision"]

    refused = run("push", folder, "--stage", "aws-large", answer="n\n")
    accepted = run("push", folder, "--stage", "aws-large", answer="y\n")

    assert refused.exit_code == 1
    assert "nothing was changed" in refused.stderr
    assert "-  per_host: 4\n+  per_host: 7" in refused.output
    assert accepted.exit_code == 0
    assert revision not in accepted.output


def test_a_push_that_nobody_answers_changes_nothing_and_names_the_way(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    edit(folder / "bizs/acme/shop.yaml", "per_host: 4", "per_host: 7")

    silent = run("push", folder, "--stage", "aws-large", answer="")
    still = run("diff", folder, "--stage", "aws-large")

    assert silent.exit_code == 2
    assert "--yes" in silent.stderr
    assert "interrupted" not in silent.stderr
    assert "+  per_host: 7" in still.output


def test_one_error_refuses_the_push_with_code_2_and_every_error(run, folder):
    edit(folder / "bizs/acme/shop.yaml", "ttl_seconds: 172800", "ttl_seconds: soon")
    edit(folder / "bizs/acme/shop.yaml", "nodes: [main, east]", "nodes: [main, west]")
    edit(folder / "tenants/acme.yaml", "description", "descriptoin")
    (folder / "stage.yml").write_text("{}")

    for_people = run("push", folder, "--stage", "aws-large", "--yes")
    for_scripts = run("push", folder, "--stage", "aws-large", "--yes", "--json")

    assert for_people.exit_code == for_scripts.exit_code == 2
    fields = {problem["field"] for problem in json.loads(for_scripts.stdout)["problems"]}
    assert fields == {
        "stage.yml",
        "bizs/acme/shop: generations[2].nodes[1]",
        "bizs/acme/shop: ttl_seconds",
        "tenants/acme: descriptoin",
    }
    assert all(field in for_people.stderr for field in fields)
    assert "4 mistakes" in for_people.stderr
    assert read_documents(boto3.client("ssm"), "aws-large") == {}


def test_selectors_and_expressions_are_compiled_before_a_push(run, folder):
    edit(folder / "bizs/acme/shop.yaml", '"ul.products > li"', '"ul.products > > li"')
    edit(folder / "bizs/acme/shop.yaml", "regex: https?://\\S+", "regex: https?://(")

    result = run("validate", folder, "--json")

    fields = [problem["field"] for problem in json.loads(result.stdout)["problems"]]
    assert result.exit_code == 2
    assert len(fields) == 2
    assert fields[0].startswith("bizs/acme/shop: rules.listing.items")
    assert fields[1].startswith("bizs/acme/shop: rules.sitemap_lines.fields.urls")


def test_one_mistake_of_a_rule_hides_no_other_one_in_it(run, tmp_path):
    biz = tmp_path / "bizs/default/shop.yaml"
    biz.parent.mkdir(parents=True)
    biz.write_text("""
rules:
  page:
    key: [title]
    fields:
      title: {csss: h1}
      price: {css: "p["}
      words: {css: p, regex: "("}
    follow: [{css: a, rule: page, max_depth: -1}]
  feed: {source: jsn, fields: {id: {json: $.id}}}
""")

    problems = json.loads(run("validate", tmp_path, "--json").stdout)["problems"]

    assert [each["field"].removeprefix("bizs/default/shop: rules.") for each in problems] == [
        "page.fields.title.csss",
        "page.follow[0].max_depth",
        "feed.source",
        "page.fields.price.css",
        "page.fields.words.regex",
    ]


def test_validate_needs_no_aws(folder, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "nobody-has-it")

    result = CliRunner().invoke(program, ["config", "validate", str(folder)])

    assert result.exit_code == 0
    assert result.output == "3 documents, valid\n"


def test_a_resolver_that_is_not_installed_here_is_a_warning(folder):
    file = folder / "bizs/acme/shop.yaml"
    file.write_text(file.read_text() + "\nseeds:\n  resolvers: {list: of-nobody}\n")

    result = CliRunner().invoke(program, ["config", "validate", str(folder)])

    assert result.exit_code == 0, result.stderr
    assert "warning: bizs/acme/shop: seeds.resolvers:" in result.stderr
    assert "'of-nobody'" in result.stderr


def test_a_error_is_reported_once_and_validate_speaks_of_no_change(folder):
    wrong = "sku: {json: $.sku, fact: url}"
    edit(folder / "bizs/acme/shop.yaml", "sku: {json: $.sku, required: true}", wrong)

    result = CliRunner().invoke(program, ["config", "validate", str(folder)])

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        (
            "bizs/acme/shop: rules.stock.fields.sku: needs exactly one of css, xpath, json, regex,"
            " fact, main_text, or fields, not json and fact"
        ),
        "1 mistake",
    ]


def test_a_stage_elsewhere_needs_to_be_reported_where(folder, monkeypatch, tmp_path):
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    result = CliRunner().invoke(program, ["config", "diff", str(folder), "--stage", "aws-large"])

    assert result.exit_code == 2
    assert (
        "You must specify a region to reach the stage 'aws-large': set AWS_PROFILE" in result.stderr
    )
    assert "the stage on this machine is called 'local'" in result.stderr


def test_validate_names_what_can_be_read_beside_what_cannot(folder):
    (folder / "stage.yaml").write_text("nodes: [")
    edit(folder / "tenants/acme.yaml", "description", "descriptoin")

    fields = [problem.field for problem in validate_folder(folder)]

    assert fields == ["stage", "tenants/acme: descriptoin"]


def test_history_is_not_rewritten(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    edit(folder / "bizs/acme/shop.yaml", "shards: 8", "shards: 9")

    result = run("push", folder, "--stage", "aws-large", "--yes")

    assert result.exit_code == 2
    assert "bizs/acme/shop: generations[2]:" in result.stderr


def test_a_biz_whose_name_is_taken_is_told_so_and_how_to_choose_another(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "bizs/acme/shop.yaml").write_text("rules: {page: {fields: {title: {css: title}}}}")

    for more in ([], ["--delete"]):
        refused = run("push", folder, "--stage", "aws-large", "--yes", *more)

        assert refused.exit_code == 2
        assert "bizs/acme/shop: generations: the one that" in refused.stderr
        assert "a biz called 'shop' stands already" in refused.stderr
        assert "`crawlfleet init --biz NAME`" in refused.stderr


def test_a_folder_of_bizs_alone_leaves_the_settings_of_the_stage_and_needs_some(run, folder):
    stage = (folder / "stage.yaml").read_text()
    (folder / "stage.yaml").unlink()

    valid = run("validate", folder)
    refused = run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "stage.yaml").write_text(stage)
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "stage.yaml").unlink()
    edit(folder / "bizs/acme/shop.yaml", "per_host: 4", "per_host: 7")
    pushed = run("push", folder, "--stage", "aws-large", "--yes")

    assert (valid.exit_code, valid.stdout) == (0, "2 documents, valid\n")
    assert refused.exit_code == 2
    assert "stage: is missing on the stage and in this folder: a stage.yaml" in refused.stderr
    assert "1 document changed" in pushed.output
    assert "settings of the stage" not in pushed.stderr


def test_a_push_shows_which_settings_of_the_stage_change_and_from_what(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    before = (folder / "stage.yaml").read_text()
    (folder / "stage.yaml").write_text(before.replace("memory_ratio: 0.8", "storage_ratio: 0.98"))
    named = run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "stage.yaml").write_text(before)

    lost = run("push", folder, "--stage", "aws-large", "--yes")
    same = run("push", folder, "--stage", "aws-large", "--yes")

    assert "thresholds.storage_ratio: default -> 0.98" in named.stderr
    assert "settings of the stage change, which hold for every biz" in lost.stderr
    assert "thresholds.storage_ratio: 0.98 -> default" in lost.stderr
    assert "thresholds.memory_ratio: default -> 0.8" in lost.stderr
    assert "settings of the stage" not in same.stderr


def test_diff_reports_additions_changes_and_removals(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "tenants/acme.yaml").rename(folder / "tenants/other.yaml")
    edit(folder / "stage.yaml", "max_consumers: 20", "max_consumers: 21")

    result = run("diff", folder, "--stage", "aws-large")
    for_scripts = json.loads(run("diff", folder, "--stage", "aws-large", "--json").stdout)

    assert result.exit_code == 1
    assert "--- aws-large/stage\n" in result.output
    assert "+  max_consumers: 21\n" in result.output
    assert "+++ /dev/null\n" in result.output
    assert for_scripts["different"] == ["stage", "tenants/acme", "tenants/other"]


def test_documents_go_only_when_asked_for(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "bizs/acme/shop.yaml").unlink()

    kept = json.loads(run("push", folder, "--stage", "aws-large", "--yes", "--json").stdout)
    gone = json.loads(
        run("push", folder, "--stage", "aws-large", "--delete", "--yes", "--json").stdout
    )

    assert kept["deleted"] == []
    assert gone["deleted"] == ["bizs/acme/shop"]


def test_a_push_reports_what_of_the_stage_the_folder_lacks_and_what_was_removed(run, folder):
    first = run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "bizs/acme/shop.yaml").unlink()

    kept = run("push", folder, "--stage", "aws-large", "--yes")
    gone = run("push", folder, "--stage", "aws-large", "--yes", "--delete")

    assert "changed; in force within ten seconds\n" in first.stdout
    assert "not in" not in first.stderr
    assert "nothing to do" in kept.stdout
    assert "in force" not in kept.stdout
    assert kept.stderr == (
        f"1 document of the stage is not in {folder}: bizs/acme/shop; `--delete` removes it\n"
    )
    assert "1 document changed, removed bizs/acme/shop; in force" in gone.stdout
    assert "not in" not in gone.stderr


def test_a_push_that_removes_a_biz_says_what_becomes_of_what_it_has(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "bizs/acme/shop.yaml").unlink()

    kept = run("push", folder, "--stage", "aws-large", "--yes")
    gone = run("push", folder, "--stage", "aws-large", "--yes", "--delete")

    assert "goes" not in kept.stderr
    assert "warning: bizs/acme/shop goes: what is stored of it stays" in gone.stderr
    assert "`crawlfleet schedule list shop`" in gone.stderr
    assert "`crawlfleet subscription list shop`" in gone.stderr


def test_a_folder_without_the_stage_s_settings_is_told_how_documents_go(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    (folder / "stage.yaml").unlink()
    (folder / "bizs/acme/shop.yaml").unlink()

    kept = run("push", folder, "--stage", "aws-large", "--yes")
    refused = run("push", folder, "--stage", "aws-large", "--yes", "--delete")

    # No advice that is refused when it is followed.
    assert "bizs/acme/shop; it stays in force" in kept.stderr
    assert "--delete" not in kept.stderr
    assert refused.exit_code == 2
    assert "stage: is missing in this folder, and --delete would remove it" in refused.stderr
    assert "crawlfleet config pull FOLDER --stage STAGE" in refused.stderr
    assert "sets one up" not in refused.stderr


def test_of_many_documents_that_the_folder_lacks_some_are_named(run, folder):
    for number in range(12):
        (folder / f"tenants/other-{number:02}.yaml").write_text("{}")
    run("push", folder, "--stage", "aws-large", "--yes")
    for number in range(12):
        (folder / f"tenants/other-{number:02}.yaml").unlink()

    kept = run("push", folder, "--stage", "aws-large", "--yes")

    assert kept.stderr.startswith(
        f"12 documents of the stage are not in {folder}: tenants/other-00"
    )
    assert "tenants/other-09 and 2 more;" in kept.stderr


def test_validate_reports_what_waits_for_a_right_stage(folder):
    waits = "is checked once stage.yaml is right"
    edit(folder / "bizs/acme/shop.yaml", "nodes: [main, east]", "nodes: [main, west]")
    right = CliRunner().invoke(program, ["config", "validate", str(folder)])
    edit(folder / "stage.yaml", "max_consumers: 20", "max_consumers: many")
    wrong = CliRunner().invoke(program, ["config", "validate", str(folder)])

    assert waits not in right.stderr
    assert "'west'" in right.stderr
    assert waits in wrong.stderr.splitlines()[-2]
    assert wrong.stderr.splitlines()[-1] == "1 mistake"


def test_a_folder_of_folders_is_reported_in_one_sentence(folder, tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        result = CliRunner().invoke(program, ["config", "validate", str(path)])
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 2
        hint = f"did you mean {folder}?" if path.exists() else "such as samplesconfig/local"
        assert hint in result.stderr


def test_pull_overwrites_comments_only_when_asked_to(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    edit(folder / "stage.yaml", "max_consumers: 20", "max_consumers: 21")
    before = (folder / "stage.yaml").read_text()
    untouched = (folder / "bizs/acme/shop.yaml").read_text()

    refused = run("pull", folder, "--stage", "aws-large", answer="n\n")
    assert refused.exit_code == 1
    assert (folder / "stage.yaml").read_text() == before
    pulled = run("pull", folder, "--stage", "aws-large", "--yes", "--json")

    assert json.loads(pulled.stdout)["files"] == [str(folder / "stage.yaml")]
    assert "max_consumers: 20" in (folder / "stage.yaml").read_text()
    assert (folder / "bizs/acme/shop.yaml").read_text() == untouched


def test_what_another_pushed_while_one_was_asked_is_not_overwritten(run, folder):
    run("push", folder, "--stage", "aws-large", "--yes")
    edit(folder / "stage.yaml", "max_consumers: 20", "max_consumers: 21")

    class Answer(io.BytesIO):
        """Agrees, after somebody else has pushed."""

        def read1(self, size=-1):
            edit_of_another = read_folder(SHOP) | {"tenants/late": "{}"}
            write_tree(boto3.client("ssm"), "aws-large", edit_of_another)
            return super().read1(size)

    result = run("push", folder, "--stage", "aws-large", answer=Answer(b"y\n"))

    assert result.exit_code == 1
    assert "somebody else" in result.stderr
    assert '"max_consumers":20' in read_documents(boto3.client("ssm"), "aws-large")["stage"]


def test_a_config_centre_that_does_not_answer_is_code_3(run, folder, monkeypatch):
    refusal = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    with broken_server(refusal) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", f"http://{address}")
        result = run("diff", folder, "--stage", "aws-large", "--json")

    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"].startswith("ssm: ")


def test_others_push_a_folder_by_a_function(aws, folder):
    client = boto3.client("ssm")

    done = push_folder(folder, "aws-large", client)

    assert SsmConfig(client, "aws-large").current().revision == done.revision


def test_the_local_stage_is_found_by_the_file_that_up_writes(tmp_path):
    (tmp_path / ".crawlfleet").mkdir()
    file = tmp_path / ".crawlfleet" / "local.json"
    deeper = tmp_path / "a" / "b"
    deeper.mkdir(parents=True)

    with pytest.raises(ConfigError, match=r"run `crawlfleet up`"):
        stage_client("local", environ={}, start=deeper)
    for wrong in ("{", "[]", "{}", '{"aws_endpoint_url": 5}', '{"aws_endpoint_url": "http://x.y"}'):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match="aws_endpoint_url"):
            stage_client("local", environ={}, start=deeper)
    file.write_text('{"aws_endpoint_url": "http://127.0.0.1:4999"}')

    client = stage_client("local", environ={}, start=deeper)

    assert client.meta.endpoint_url == "http://127.0.0.1:4999"


def test_the_state_folder_of_another_local_stage_is_named(run, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SSM"):
        monkeypatch.delenv(name, raising=False)
    state = tmp_path / "elsewhere"
    state.mkdir()

    lost = run("push", folder, "--stage", "local", "--yes")
    reported = run("push", folder, "--stage", "local", "--state", state, "--yes", "--json")

    assert lost.exit_code == reported.exit_code == 2
    assert lost.stderr.splitlines() == [
        (
            ".crawlfleet/local.json: is not here; run `crawlfleet up`, or name the folder that it "
            "was started with, with --state FOLDER or CRAWLFLEET_STATE; nothing was changed"
        )
    ]
    assert json.loads(reported.stdout)["error"].startswith(f"{state}/local.json:")
    monkeypatch.setenv("CRAWLFLEET_STATE", str(state))
    reported = run("push", folder, "--stage", "local", "--yes", "--json")
    assert json.loads(reported.stdout)["error"].startswith(f"{state}/local.json:")
    (state / "local.json").write_text('{"aws_endpoint_url": "http://127.0.0.1:4999"}')
    assert stage_client("local", state, environ={}).meta.endpoint_url == "http://127.0.0.1:4999"


def test_an_endpoint_in_the_environment_comes_before_that_file(tmp_path, aws, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:4566")

    client = stage_client("local", start=tmp_path)

    assert client.meta.endpoint_url == "http://localhost:4566"


# ---- tenants that no files manage -------------------------------------------------------------


@pytest.fixture
def managed(run, folder):
    """Push the folder, and beside it a tenant that is managed, with a biz."""
    run("push", folder, "--stage", "aws-large", "--yes")
    ours = {"managed": True, "api_keys": ["key-of-ours"], "share": 2}
    biz = {"collection": "ours", "rules": {"page": {"fields": {"title": {"css": "title"}}}}}
    documents = {"tenants/ours": json.dumps(ours), "bizs/ours/docs": json.dumps(biz)}
    write_tree(boto3.client("ssm"), "aws-large", documents)
    return documents


def test_a_folder_that_does_not_know_a_managed_tenant_leaves_it_alone(run, folder, managed):
    edit(folder / "bizs/acme/shop.yaml", "per_host: 4", "per_host: 7")
    compared = run("diff", folder, "--stage", "aws-large")

    pushed = run("push", folder, "--stage", "aws-large", "--yes", "--delete")

    stored = read_documents(boto3.client("ssm"), "aws-large")
    assert "ours" not in compared.output
    assert pushed.exit_code == 0
    assert "1 tenant that no files manage, not in" in pushed.stderr
    assert "ours" in pushed.stderr
    assert {path: json.loads(stored[path]) for path in managed} == {
        path: json.loads(text) for path, text in managed.items()
    }


def test_a_managed_tenant_is_pulled_and_its_keys_stay_when_an_old_file_is_pushed(
    run, folder, managed, tmp_path
):
    copy = tmp_path / "copy"
    run("pull", copy, "--stage", "aws-large")
    rotated = json.loads(managed["tenants/ours"]) | {"api_keys": ["newer"], "suspended": True}
    write_tree(
        boto3.client("ssm"),
        "aws-large",
        {"tenants/ours": json.dumps(rotated)},
        wanted_of=lambda standing, given, delete: {**standing, **given},
    )
    edit(copy / "tenants/ours.yaml", "share: 2", "share: 5")
    edit(copy / "tenants/ours.yaml", "managed: true", "managed: false")

    pushed = run("push", copy, "--stage", "aws-large", "--yes", "--delete")

    stored = json.loads(read_documents(boto3.client("ssm"), "aws-large")["tenants/ours"])
    assert pushed.exit_code == 0
    assert stored == {**rotated, "share": 5}


def test_a_biz_that_a_folder_with_the_managed_tenant_lacks_is_removed(run, managed, tmp_path):
    copy = tmp_path / "copy"
    run("pull", copy, "--stage", "aws-large")
    (copy / "bizs/ours/docs.yaml").unlink()

    run("push", copy, "--stage", "aws-large", "--yes", "--delete")

    stored = read_documents(boto3.client("ssm"), "aws-large")
    assert "bizs/ours/docs" not in stored
    assert "tenants/ours" in stored


def test_a_folder_may_have_bizs_of_a_managed_tenant_and_no_document_of_it(run, folder, managed):
    (folder / "bizs/ours").mkdir()
    biz = "collection: more\nrules: {page: {fields: {title: {css: h1}}}}\n"
    (folder / "bizs/ours/more.yaml").write_text(biz)

    checked = run("validate", folder)
    pushed = run("push", folder, "--stage", "aws-large", "--yes", "--delete")

    stored = read_documents(boto3.client("ssm"), "aws-large")
    assert (checked.exit_code, pushed.exit_code) == (0, 0)
    assert "tenants/ours is not in" in checked.stderr
    assert {"tenants/ours", "bizs/ours/docs", "bizs/ours/more"} <= stored.keys()


def test_a_push_by_which_a_rule_goes_warns_of_the_schedules_that_may_name_it(run, folder):
    biz = folder / "bizs/acme/shop.yaml"
    kept = biz.read_text()
    biz.write_text(kept.replace("rules:\n", "rules:\n  passing:\n    fields: {title: {css: h1}}\n"))
    first = run("push", folder, "--stage", "aws-large", "--yes")
    same = run("push", folder, "--stage", "aws-large", "--yes")
    biz.write_text(kept)

    pushed = run("push", folder, "--stage", "aws-large", "--yes")

    assert (first.exit_code, same.exit_code, pushed.exit_code) == (0, 0, 0)
    assert "warning: bizs/acme/shop: passing goes; a schedule or a kept spider" in pushed.stderr
    assert "`crawlfleet schedule list shop`" in pushed.stderr
    assert "warning" not in first.stderr + same.stderr
