"""One Spark session for the whole run; ``SPARK_REMOTE=local[2]`` makes it Spark Connect."""

import re

import pytest
from pyspark.sql import functions as F

from deadletter.spark.session import get_spark


@pytest.fixture(scope="session")
def spark():
    """The session that everything shares."""
    return get_spark()


@pytest.fixture(autouse=True)
def doctest_names(request):
    """Doctests use ``spark`` and ``F`` without importing them."""
    if request.node.__class__.__name__ == "DoctestItem":
        names = request.getfixturevalue("doctest_namespace")
        names["F"] = F
        if re.search(r"\bspark\b", request.node.dtest.docstring):
            names["spark"] = request.getfixturevalue("spark")
