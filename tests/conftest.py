"""A lake that the properties and the killed runs are compared with; and the empty tables of all lakes."""

import shutil
from pathlib import Path

import pytest

from deadletter import steps
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import DOCUMENT
from deadletter.tables import ALL_TABLES
from tests.pipelines.conftest import quiet
from tests.properties.arriving import everything, generated, write


@pytest.fixture(scope="session", autouse=True)
def tables_made_once(tmp_path_factory):
    """The empty tables of the first lake are made, those of later ones are copies: to make them takes as long as much
    that tests do with them."""
    made, make = tmp_path_factory.mktemp("made") / "lake", Lake.create_missing

    def create_missing(lake, tables=ALL_TABLES):
        if tables is ALL_TABLES and not any(Path(lake.folder).glob("*/*/_delta_log")):
            if not made.exists():
                make(Lake(lake.spark, str(made)))
            shutil.copytree(made, lake.folder, dirs_exist_ok=True)
        make(lake, tables)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lake, "create_missing", create_missing)
        yield


@pytest.fixture(scope="session")
def quiet_lake(spark, tmp_path_factory):
    """The lake of one run over everything in order, what the run summed up, and the landing folder."""
    landing = tmp_path_factory.mktemp("landing")
    write(landing, "all.jsonl.gz", everything(generated()))
    lake = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    return lake, steps.run(lake, str(landing), habits=DOCUMENT, tell=quiet), landing
