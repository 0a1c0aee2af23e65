"""Unit tests have few rows, whatever ran before them in the session."""

import pytest
from pyspark.sql import SparkSession

from deadletter.session import tune


@pytest.fixture(autouse=True, scope="module")
def few_rows():
    """Queries of a few rows take longest to compile: they are interpreted."""
    running = SparkSession.getActiveSession()
    if running:
        tune(running, 0)
