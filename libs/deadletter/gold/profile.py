"""What the messages of a queue have in common, counted: what dead ones are compared with."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deadletter import tables
from deadletter.gold.facts import SilverFacts
from deadletter.gold.traits import last_consumer, payload_fields, people
from deadletter.patterns.profile import facts as payload_facts
from deadletter.patterns.profile import parts, profile_of
from deadletter.tables import QUEUE, QUEUE_KEY


def queue_profile(facts: SilverFacts, healthy: DataFrame) -> DataFrame:
    """Rows of ``control.queue_profile``: what the payloads of ``healthy`` messages say (rows of
    ``control.healthy_sample``), and who posted and received the messages of ``facts`` that were delivered.
    """
    return _of_payloads(healthy).unionByName(_of_people(facts)).select(*tables.QUEUE_PROFILE.column_names)


def said(payload: Column) -> Column:
    """All that is counted of one payload: ``array<struct<what, path, word>>``, see
    :func:`deadletter.patterns.profile.facts`, and its fields that say where it comes from. Nothing is said of one that
    no event showed."""
    fields = F.transform(
        payload_fields(payload),
        lambda trait: F.struct(F.lit("field").alias("what"), trait["what"].alias("path"), trait["value"].alias("word")),
    )
    told = F.concat(parts(payload_facts(payload)), fields)
    return F.when(payload.isNotNull(), told).otherwise(F.array().cast(tables.SAID))


def usual(profiles: DataFrame) -> DataFrame:
    """What is usual in each queue of ``profiles``, rows of ``control.queue_profile``; see
    :func:`deadletter.patterns.profile.profile_of`."""
    return profile_of(_counted(profiles), QUEUE)


def _counted(profiles: DataFrame) -> DataFrame:
    of_payloads = profiles.where("what IN ('path', 'kind', 'value')")
    return of_payloads.select(
        *QUEUE, "what", F.col("name").alias("path"), F.col("value").alias("word"), F.col("messages").alias("n")
    )


def _of_payloads(healthy: DataFrame) -> DataFrame:
    told = healthy.select(*QUEUE, F.explode("facts").alias("fact"))
    named = told.select(
        *QUEUE, "fact.what", F.col("fact.path").alias("name"), F.col("fact.word").alias("value")
    ).withColumn("subscription", F.lit(""))
    return named.groupBy(*QUEUE_KEY, "what", "name", "value").agg(F.count("*").alias("messages"))


def _of_people(facts: SilverFacts) -> DataFrame:
    """Consumers and producers of all delivered messages."""
    delivered = facts.with_post(facts.state.where(F.size("deliveries") > 0))
    pair = (last_consumer(F.col("deliveries")).alias("consumer"), F.col("post.producer").alias("producer"))
    # counted first: a queue has few of them, and what takes an array apart is not compiled
    pairs = delivered.select(*QUEUE_KEY, *pair).groupBy(*QUEUE_KEY, "consumer", "producer")
    counts = pairs.agg(F.count("*").alias("n"))
    if facts.uneventful is not None:
        once = facts.uneventful.where("claimed_at IS NOT NULL").groupBy(*QUEUE_KEY, "consumer", "producer")
        counts = counts.unionByName(once.agg(F.sum("messages").alias("n")))
    told = counts.select(*QUEUE_KEY, "n", F.explode(people(F.col("consumer"), F.col("producer"))).alias("trait"))
    named = told.select(*QUEUE_KEY, "n", "trait.*", F.lit("").alias("name"))
    return named.groupBy(*QUEUE_KEY, "what", "name", "value").agg(F.sum("n").alias("messages"))
