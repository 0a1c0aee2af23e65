"""What one message is like, as far as that may set it apart from others: who had it, and where it says it is from."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter.tables import DEAD_LETTERS, TRAITS

WORD = "(^|_|(?-i:(?<=[a-z])(?=[A-Z])))"
"""Where a word of a name starts, as in ``app_version`` and ``appVersion``."""
FIELDS = f"(?i){WORD}(version|host|hostname|node|server|instance|region|zone|app|client|agent|release|build)$"
"""Names of payload fields that say where a message comes from or who made it."""
PEOPLE = ("consumer", "producer")
LONGEST = 64
"""Characters of a field's value that is kept."""


def with_traits(dead: DataFrame) -> DataFrame:
    """Add what may set a dead letter apart: who received and posted it, if it was delivered at all, as all delivered
    messages are what it is compared with; and where its payload says it is from."""
    delivered = F.size("deliveries") > 0
    who = F.when(delivered, people(last_consumer(F.col("deliveries")), F.col("producer"))).otherwise(
        F.array().cast(TRAITS)
    )
    traits = F.concat(who, payload_fields(F.col("payload")))
    return dead.withColumn("traits", traits).select(*DEAD_LETTERS.column_names)


def last_consumer(deliveries: Column) -> Column:
    """Who received a message last: of a RabbitMQ connection, which names both ends and a channel, the consumer's host,
    as a consumer has many connections.

    >>> rows = [("10.0.2.66:50660 -> 10.0.0.5:5672 (1)",), ("[fd00::1]:50660 -> [fd00::5]:5672 (1)",), ("worker-1",)]
    >>> df = spark.createDataFrame(rows, "consumer string").select(F.array(F.struct("consumer")).alias("deliveries"))
    >>> [row[0] for row in df.select(last_consumer(F.col("deliveries"))).collect()]
    ['10.0.2.66', '[fd00::1]', 'worker-1']
    """
    consumer = F.try_element_at(deliveries, F.lit(-1))["consumer"]
    return F.regexp_replace(consumer, r"^(\S+):[0-9]+ -> \S+:[0-9]+ \([0-9]+\)$", "$1")


def people(consumer: Column, producer: Column) -> Column:
    """Who received a message last and who posted it, as far as that is told: ``array<struct<what, value>>``."""
    who = (consumer, producer)
    traits = [F.struct(F.lit(what).alias("what"), one.alias("value")) for what, one in zip(PEOPLE, who, strict=True)]
    return F.filter(F.array(*traits), lambda trait: trait["value"].isNotNull())


def payload_fields(payload: Column) -> Column:
    """Short top-level values of fields called like :data:`FIELDS`: ``array<struct<what, value>>``, sorted.

    >>> rows = ['{"schema_version": 3, "host": "web-1", "id": 7}', '{"appVersion": 2, "conversion": 1}', "no JSON"]
    >>> df = spark.createDataFrame([(row,) for row in rows], "p STRING")
    >>> [[tuple(trait) for trait in row[0]] for row in df.select(payload_fields(F.col("p"))).collect()]
    [[('host', 'web-1'), ('schema_version', '3')], [('appVersion', '2')], []]
    """
    root = F.try_variant_get(F.try_parse_json(payload), "$", "map<string,variant>")
    entries = F.filter(
        F.map_entries(root), lambda e: e["key"].rlike(FIELDS) & ~F.schema_of_variant(e["value"]).rlike("^(OBJ|ARR)")
    )
    traits = F.transform(
        entries,
        lambda e: F.struct(e["key"].alias("what"), F.try_variant_get(e["value"], "$", "string").alias("value")),
    )
    short = F.filter(traits, lambda t: F.length(t["value"]) <= LONGEST)
    # an object parsed to a map comes in no order that is promised
    return F.coalesce(F.array_sort(short), F.array().cast(TRAITS))
