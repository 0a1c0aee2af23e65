"""PySpark's questions to the JVM about its classes and functions."""

from py4j.clientserver import JavaClient
from py4j.protocol import REFLECTION_COMMAND_NAME
from pyspark.sql import functions as F


def test_a_function_is_looked_up_once(spark, monkeypatch):
    plain, asked = JavaClient.send_command, []

    def told(self, command, *rest, **more):
        asked.append(command)
        return plain(self, command, *rest, **more)

    def made():
        return F.transform("a", lambda x: F.coalesce(x, F.lit(1)) + 1)

    first = made()
    monkeypatch.setattr(JavaClient, "send_command", told)
    second = made()
    assert asked
    assert not [command for command in asked if command.startswith(REFLECTION_COMMAND_NAME)]
    ones = spark.createDataFrame([([1, None],)], "a array<int>")
    assert ones.select(first, second).first() == ([2, 2], [2, 2])
