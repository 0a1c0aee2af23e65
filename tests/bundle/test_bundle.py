"""What the bundle names exists, and is accepted by the code it calls. Only the last test asks a workspace, if any."""

import os
import re
import runpy
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume

from deadletter.dashboard.definition import load
from deadletter.tables import ALL_TABLES

ROOT = Path(__file__).parents[2]
BUNDLE = yaml.safe_load((ROOT / "databricks.yml").read_text())
LAYER = re.compile(r"\b(bronze|silver|gold|control)\.\w+")
KINDS = {"alerts": Alert, "dashboards": Dashboard, "jobs": Job, "schemas": Schema, "volumes": Volume}


def resources():
    for pattern in BUNDLE["include"]:
        for path in sorted(ROOT.glob(pattern)):
            for kind, members in yaml.safe_load(path.read_text())["resources"].items():
                for name, body in members.items():
                    yield pytest.param(path, kind, body, id=f"{kind}.{name}")


@pytest.mark.parametrize(("path", "kind", "body"), resources())
def test_resource_loads(path, kind, body):
    loaded = KINDS[kind].from_dict(body)
    assert loaded.as_dict(), path


def test_no_deployment_removes_what_holds_data():
    lasting = [body for _, kind, body in (found.values for found in resources()) if kind in ("schemas", "volumes")]
    assert [body["lifecycle"] for body in lasting] == [{"prevent_destroy": True}] * 7


def made(kind):
    return {
        name: body
        for path in sorted((ROOT / "pipelines").glob("*.yml"))
        for name, body in yaml.safe_load(path.read_text())["resources"].get(kind, {}).items()
    }


def jobs():
    """Those that write."""
    return {name: job for name, job in made("jobs").items() if name != "explore"}


def calls():
    for name, job in jobs().items():
        for task in job["tasks"]:
            yield pytest.param(job, task, id=f"{name}.{task['task_key']}")


def filled(job, part):
    """A task's parameter with the job's defaults in it, and with the bundle's where these are variables."""
    defaults = {parameter["name"]: parameter["default"] for parameter in job["parameters"]}
    given = re.sub(r"{{job\.parameters\.(\w+)}}", lambda name: defaults[name[1]], part)
    return re.sub(r"\$\{var\.(\w+)\}", lambda name: BUNDLE["variables"][name[1]]["default"], given)


@pytest.mark.parametrize(("job", "task"), calls())
def test_the_task_calls_code_that_takes_its_parameters(job, task, capsys):
    """Of all that the task gives, and an option that nobody knows, only that option is refused."""
    call = task["spark_python_task"]
    main = runpy.run_path(str(ROOT / "pipelines" / call["python_file"]))["main"]
    with pytest.raises(SystemExit) as refused:
        main([*[filled(job, part) for part in call["parameters"]], "--nobody-knows-this"])
    assert refused.value.code == 2
    assert "unrecognized arguments: --nobody-knows-this\n" in capsys.readouterr().err


@pytest.mark.parametrize(("job", "task"), calls())
def test_a_task_whose_empty_arguments_are_left_out_gets_the_others(job, task):
    given = [filled(job, part) for part in task["spark_python_task"]["parameters"]]
    assert all(given), "an option's empty value is part of the option"


@pytest.mark.parametrize("name", jobs())
def test_every_job_parameter_is_used(name):
    parts = [part for task in jobs()[name]["tasks"] for part in task["spark_python_task"]["parameters"]]
    used = {parameter for part in parts for parameter in re.findall(r"job\.parameters\.(\w+)", part)}
    assert used == {parameter["name"] for parameter in jobs()[name]["parameters"]}


def seconds(value):
    """A number, or the default of the variable that stands for it."""
    variable = re.fullmatch(r"\$\{var\.(\w+)\}", str(value))
    return BUNDLE["variables"][variable[1]]["default"] if variable else value


@pytest.mark.parametrize(("job", "task"), calls())
def test_a_task_that_hangs_or_fails_is_stopped_tried_again_and_told(job, task):
    assert 0 < seconds(task["timeout_seconds"]) <= seconds(job["timeout_seconds"])
    assert task["max_retries"] >= 1
    assert task["disable_auto_optimization"], "serverless compute would try more often than that"
    assert task["min_retry_interval_millis"] > 0
    assert job["email_notifications"]["on_failure"] == ["${var.notify}"]
    assert job["max_concurrent_runs"] == 1, "one writer at a time"
    assert job["queue"] == {"enabled": False}, "what waits in line starts after the job was paused"
    assert job["notification_settings"]["no_alert_for_skipped_runs"] is True, "a skipped run is no failure"
    assert task["environment_key"] in {environment["environment_key"] for environment in job["environments"]}


def test_tasks_run_in_the_order_of_the_layers():
    tasks = jobs()["medallion"]["tasks"]
    order = {task["task_key"]: [d["task_key"] for d in task.get("depends_on", [])] for task in tasks}
    assert order == {"bronze": [], "silver": ["bronze"], "gold": ["silver"]}


def test_jobs_bring_the_wheel_that_the_bundle_builds():
    built = re.search(r"--outdir (\S+)", BUNDLE["artifacts"]["wheel"]["build"])[1]
    for job in made("jobs").values():
        for environment in job["environments"]:
            assert environment["spec"]["dependencies"] == [f"../{built}/*.whl"]


def test_a_wheel_is_built_alone_and_of_what_is_there():
    """Here and for the bundle: files that were deleted since are no part of it, and no other wheel is beside it."""
    build = BUNDLE["artifacts"]["wheel"]["build"]
    assert build.startswith("rm -rf build/lib dist && ")
    recipe = re.search(r"^wheel: .*\n\t(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    assert recipe.replace("$(BIN)/", "") == build


def test_the_wheel_brings_no_spark_to_databricks():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]]
    assert not {"pyspark", "delta-spark"} & set(named)


def test_the_landing_volume_is_where_the_job_reads():
    (path,) = ROOT.glob("pipelines/schemas.yml")
    made = yaml.safe_load(path.read_text())["resources"]
    volume = made["volumes"]["landing"]
    schema = re.fullmatch(r"\$\{resources\.schemas\.(\w+)\.name\}", volume["schema_name"])[1]
    defaults = {p["name"]: p["default"] for p in jobs()["medallion"]["parameters"]}
    assert (
        defaults["landing"] == f"/Volumes/{volume['catalog_name']}/{made['schemas'][schema]['name']}/{volume['name']}"
    )
    assert {table.layer for table in ALL_TABLES} == {schema["name"] for schema in made["schemas"].values()}


def dashboards():
    for path in ROOT.glob("pipelines/*.yml"):
        for name, body in yaml.safe_load(path.read_text())["resources"].get("dashboards", {}).items():
            yield pytest.param(path.parent / body["file_path"], id=name)


@pytest.mark.parametrize("path", dashboards())
def test_dashboard_asks_for_tables_and_fields_that_exist(path):
    dashboard = load(path)
    for sql in dashboard.datasets.values():
        named = re.findall(r"\b(?:bronze|silver|gold|control)\.\w+", sql)
        assert named
        assert set(named) <= {table.full_name for table in ALL_TABLES}
    widgets = [widget for page in dashboard.pages for widget in page.widgets]
    assert {query.dataset for widget in widgets for query in widget.queries} == set(dashboard.datasets)
    for widget in widgets:
        drawn = set(re.findall(r"'fieldName': [\"']([^\"']+)[\"']", str(widget.encodings)))
        assert drawn <= {name for query in widget.queries for name in query.fields}, widget.name


@pytest.mark.parametrize("path", dashboards())
def test_widgets_ask_for_fields_and_their_counts_and_sums(path):
    """What else is worked out is in the data sets' SQL: a browser counts small ones, and knows no other functions."""
    field = r"`\w+`"
    known = re.compile(rf"{field}|(SUM|AVG|MIN|MAX|COUNT)\({field}\)|COUNT\(\*\)|COUNT\(DISTINCT {field}\)")
    asked = [
        expression
        for page in load(path).pages
        for widget in page.widgets
        for query in widget.queries
        for expression in query.fields.values()
    ]
    assert [expression for expression in asked if not known.fullmatch(expression)] == []


@pytest.mark.parametrize("path", dashboards())
def test_dashboard_widgets_do_not_overlap(path):
    for page in load(path).pages:
        taken = []
        for widget in page.widgets:
            x, y, width, height = widget.position
            assert x + width <= 6
            taken += [(column, row) for column in range(x, x + width) for row in range(y, y + height)]
        assert len(taken) == len(set(taken)), page.name


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_notebooks_are_databricks_notebooks(path):
    source = path.read_text()
    assert source.splitlines()[0] == "# Databricks notebook source"
    assert 'widget("lake"' in source
    assert all(line == "# COMMAND ----------" for line in source.splitlines() if line.startswith("# COMMAND"))


def test_the_notebooks_are_run_with_the_wheel_on_the_lake():
    job = made("jobs")["explore"]
    assert "schedule" not in job
    opened = [(ROOT / "pipelines" / task["notebook_task"]["notebook_path"]).resolve() for task in job["tasks"]]
    assert sorted(opened) == sorted((ROOT / "notebooks").glob("*.py"))
    assert {task["environment_key"] for task in job["tasks"]} == {e["environment_key"] for e in job["environments"]}
    asked = {name for path in opened for name in re.findall(r'widget\("(\w+)"', path.read_text())}
    assert {parameter["name"] for parameter in job["parameters"]} == asked


def test_alerts_wait_and_tell_as_the_jobs_do():
    for alert in made("alerts").values():
        assert alert["evaluation"]["notification"]["subscriptions"] == [{"user_email": "${var.notify}"}]
        assert alert["schedule"]["pause_status"] == "${var.schedule_status}"
        assert alert["evaluation"]["source"]["name"] == re.search(r" AS (\w+)\nFROM", alert["query_text"])[1]
    assert BUNDLE["targets"]["dev"]["variables"]["schedule_status"] == "PAUSED"


def test_what_lies_beside_the_project_is_not_deployed():
    """A lake, events or a report that somebody made in the checkout would be in the workspace for all to read."""
    assert BUNDLE["sync"] == {"paths": ["pipelines", "notebooks"]}


def test_a_new_lake_can_wait_for_what_it_begins_with():
    paused = {name: job["schedule"] for name, job in BUNDLE["targets"]["prod"]["resources"]["jobs"].items()}
    assert paused == dict.fromkeys(jobs(), {"pause_status": "${var.schedule_status}"})
    assert BUNDLE["variables"]["schedule_status"]["default"] == "UNPAUSED"


def test_every_variable_is_described_and_used():
    text = "".join(path.read_text() for path in [ROOT / "databricks.yml", *ROOT.glob("pipelines/*.yml")])
    for name, variable in BUNDLE["variables"].items():
        assert variable["description"]
        assert f"${{var.{name}}}" in text, name
    assert set(re.findall(r"\$\{var\.(\w+)\}", text)) == set(BUNDLE["variables"])


def test_whoever_deploys_names_the_warehouse_and_who_is_told():
    """Any default would be deployed, and found out by the first who opens the dashboard, or waits for a mail."""
    told = (ROOT / "docs" / "deployment.md").read_text()
    for name in ("warehouse_id", "notify"):
        assert "default" not in BUNDLE["variables"][name]
        assert f"`BUNDLE_VAR_{name}`" in told
    assert BUNDLE["targets"]["dev"]["variables"]["notify"] == "${workspace.current_user.userName}"
    assert "notify" not in BUNDLE["targets"]["prod"]["variables"]


def test_targets():
    assert BUNDLE["targets"]["dev"]["mode"] == "development"
    assert BUNDLE["targets"]["dev"]["default"] is True
    assert BUNDLE["targets"]["prod"]["mode"] == "production"
    assert "service_principal_name" in BUNDLE["targets"]["prod"]["run_as"]
    assert "host" not in (ROOT / "databricks.yml").read_text()
    # older ones refuse run_as beside a dashboard, or pass over dataset_catalog
    assert BUNDLE["bundle"]["databricks_cli_version"] == ">= 0.297.0"
    assert "0.297.0" in (ROOT / "docs" / "deployment.md").read_text()


def test_nobody_else_may_write_what_production_runs():
    root = BUNDLE["targets"]["prod"]["workspace"]["root_path"]
    assert root.startswith("/Workspace/Users/${var.service_principal}/"), "all users may write to /Workspace/Shared"


def test_tables_and_dashboard_have_the_same_readers():
    permissions = BUNDLE["targets"]["prod"]["permissions"]
    assert [p["level"] for p in permissions if p.get("group_name") == "${var.readers}"] == ["CAN_VIEW"]
    assert {p.get("group_name") for p in permissions} == {None, "${var.readers}"}
    # a grant knows all users as the one, a permission as the other
    assert BUNDLE["variables"]["readers"]["default"] not in ("account users", "users")


def test_what_the_names_and_rights_of_tables_hang_on():
    assert BUNDLE["experimental"]["skip_name_prefix_for_schema"] is True
    assert BUNDLE["experimental"]["skip_artifact_cleanup"] is True, "a run may be between two steps"
    assert BUNDLE["artifacts"]["wheel"]["dynamic_version"] is True
    ((_, kind, dashboard),) = [found.values for found in resources() if found.values[1] == "dashboards"]
    assert (kind, dashboard["dataset_catalog"]) == ("dashboards", "${var.catalog}")
    assert dashboard["embed_credentials"] is False, "each reader sees what their own rights show"


def test_production_may_use_what_was_deployed():
    """The principal that runs may write every schema, the dashboard's readers read those that it asks."""
    granted = BUNDLE["targets"]["prod"]["resources"]["schemas"]
    (made,) = [yaml.safe_load(path.read_text())["resources"] for path in ROOT.glob("pipelines/schemas.yml")]
    assert granted.keys() == made["schemas"].keys()
    read = set()
    for name, body in granted.items():
        grants = Schema.from_dict(made["schemas"][name] | body).as_dict()["grants"]
        may = {grant["principal"]: set(grant["privileges"]) for grant in grants}
        assert {"USE_SCHEMA", "CREATE_TABLE", "SELECT", "MODIFY"} <= may["${var.service_principal}"]
        read |= {name} if "SELECT" in may.get("${var.readers}", ()) else set()
        # the lake's own masks are there: who cannot read them would see what they hide
        assert ("READ_VOLUME" in may.get("${var.readers}", ())) == (name == "control")
    # raw events are staged, and readers may not see these
    assert made["volumes"]["stage"]["schema_name"] == "${resources.schemas.bronze.name}"
    asked = {
        name for page in dashboards() for sql in load(page.values[0]).datasets.values() for name in LAYER.findall(sql)
    }
    assert asked <= read


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_bundle_validates(target):
    databricks = shutil.which("databricks")
    if not databricks:
        pytest.skip("the databricks command is not on the PATH; the bundle was checked with databricks-bundles")
    if subprocess.run([databricks, "current-user", "me"], capture_output=True, check=False).returncode:
        pytest.skip("the databricks command is not logged in to a workspace, which it asks who deploys")
    given = os.environ | {"BUNDLE_VAR_warehouse_id": "0123456789abcdef", "BUNDLE_VAR_notify": "queues@example.org"}
    # not strict for prod: it warns of a folder of the service principal that is the variable's default
    strict = ["--strict"] if target == "dev" else []
    done = subprocess.run([databricks, "bundle", "validate", *strict, "-t", target], cwd=ROOT, env=given, check=False)
    assert done.returncode == 0
