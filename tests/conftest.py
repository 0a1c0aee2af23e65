"""A lake that the properties and the killed runs are compared with."""

import pytest

from deadletter import steps
from deadletter.lake import Lake
from deadletter.rules.zaqar_store import DOCUMENT
from tests.pipelines.conftest import quiet
from tests.properties.arriving import everything, generated, write


@pytest.fixture(scope="session")
def quiet_lake(spark, tmp_path_factory):
    """The lake of one run over everything in order, what the run summed up, and the landing folder."""
    landing = tmp_path_factory.mktemp("landing")
    write(landing, "all.jsonl.gz", everything(generated()))
    lake = Lake(spark, str(tmp_path_factory.mktemp("lake")))
    return lake, steps.run(lake, str(landing), habits=DOCUMENT, tell=quiet), landing
