"""The tasks of the scheduled job make the same lake as the command."""

import runpy
from pathlib import Path

from deadletter.lake import Lake
from tests.pipelines.comparing import COMPARED, assert_same_tables
from tests.pipelines.conftest import few_lines

PIPELINES = Path(__file__).parents[2] / "pipelines"


def test_the_tasks_make_the_lake_of_a_run(spark, small_lake, tmp_path):
    place = ["--lake", str(tmp_path / "lake")]
    landing = ["--landing", str(few_lines(tmp_path / "landing"))]
    for name, more in (("bronze", landing), ("silver", []), ("gold", [])):
        runpy.run_path(str(PIPELINES / f"{name}.py"))["main"]([*more, *place])
    assert_same_tables(Lake(spark, place[1]), small_lake, COMPARED)
