"""What the bundle names exists, and is accepted by the code it calls. Needs no workspace."""

import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume

ROOT = Path(__file__).parents[2]
BUNDLE = yaml.safe_load((ROOT / "databricks.yml").read_text())
KINDS = {"jobs": Job, "schemas": Schema, "volumes": Volume}


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


def tasks():
    job = yaml.safe_load((ROOT / "pipelines/medallion.job.yml").read_text())["resources"]["jobs"]["medallion"]
    return job, job["tasks"]


def test_tasks_call_files_that_take_their_parameters():
    """Each file answers --help, which names every parameter the task gives."""
    for task in tasks()[1]:
        call = task["spark_python_task"]
        main = runpy.run_path(str(ROOT / "pipelines" / call["python_file"]))["main"]
        options = [part for part in call["parameters"] if part.startswith("--")]
        with pytest.raises(SystemExit) as done:
            main(["--help"])
        assert done.value.code == 0
        source = (ROOT / "pipelines" / call["python_file"]).read_text()
        assert all(f'"{option}"' in source for option in options)


def test_tasks_use_parameters_that_the_job_has():
    job, found = tasks()
    named = {parameter["name"] for parameter in job["parameters"]}
    used = {
        name
        for task in found
        for part in task["spark_python_task"]["parameters"]
        for name in re.findall(r"job\.parameters\.(\w+)", part)
    }
    assert used == named


def test_tasks_run_in_the_order_of_the_layers():
    order = {task["task_key"]: [d["task_key"] for d in task.get("depends_on", [])] for task in tasks()[1]}
    assert order == {"bronze": [], "silver": ["bronze"], "gold": ["silver"]}
    assert {task["environment_key"] for task in tasks()[1]} == {
        e["environment_key"] for e in tasks()[0]["environments"]
    }


def test_every_variable_is_described_and_used():
    text = "".join(path.read_text() for path in [ROOT / "databricks.yml", *ROOT.glob("pipelines/*.yml")])
    for name, variable in BUNDLE["variables"].items():
        assert variable["description"]
        assert f"${{var.{name}}}" in text, name
    assert set(re.findall(r"\$\{var\.(\w+)\}", text)) == set(BUNDLE["variables"])


def test_targets():
    assert BUNDLE["targets"]["dev"]["mode"] == "development"
    assert BUNDLE["targets"]["dev"]["default"] is True
    assert BUNDLE["targets"]["prod"]["mode"] == "production"
    assert "service_principal_name" in BUNDLE["targets"]["prod"]["run_as"]
    assert "host" not in (ROOT / "databricks.yml").read_text()


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_bundle_validates(target):
    databricks = shutil.which("databricks")
    if not databricks:
        pytest.skip("the databricks command is not on the PATH; the bundle was checked with databricks-bundles")
    done = subprocess.run([databricks, "bundle", "validate", "--strict", "-t", target], cwd=ROOT, check=False)
    assert done.returncode == 0
