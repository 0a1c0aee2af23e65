"""Which of a RabbitMQ message's deaths is which, and which of them it came back from: what ``x-death`` shows of it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from deadletter.spark.columns import bound


def returned_from(delivery: Column, death: Column, deaths: Column) -> Column:
    """Whether ``delivery``, from the queue of a message's ``death``, shows that it came back from it.

    Its ``x-death`` shows the death: as many of the kind since the same first one, or one since a later first one, as of
    a message that was posted anew meanwhile. Or it came after the event that told
    of the death, when the message had left the queue where it lay dead, and shows none of the kind, as a message that
    was posted anew does not, or the death was the first. One that shows fewer came back from an earlier death. Both
    times are the collector's; the death's own is the broker's, which an event that is collected late seems to follow.
    """
    alike = F.filter(deaths, lambda d: (d["event_id"] == delivery["event_id"]) & (d["reason"] == death["reason"]))
    count = F.coalesce(death["count"], F.lit(1))
    shown = F.exists(
        alike,
        lambda d: (
            ((F.coalesce(d["count"], F.lit(1)) >= count) & (d["first"] >= death["first"]))
            | (d["first"] > death["first"])
        ),
    )
    anew = (F.size(alike) == 0) | (count <= 1)
    return shown | ((delivery["time"] > first_told(death, deaths)["told"]) & anew)


def first_told(death: Column, deaths: Column) -> Column:
    """``time`` and ``told`` of the first event that tells of a ``death``: a dead letter shows it whenever it is read.

    ``deaths`` are all that are told of the message: a later one of a kind has a greater count, or another first one.
    """
    same = F.filter(deaths, lambda d: is_same(d, death))
    return F.array_min(F.transform(same, lambda d: F.struct(d["told"].alias("told"), d["time"].alias("time"))))


def is_same(told: Column, death: Column) -> Column:
    """Whether what is ``told`` of a message is this ``death``: as many of the kind since the same first one."""
    return of_one_kind(told, death) & told["count"].eqNullSafe(death["count"])


def of_one_kind(told: Column, death: Column) -> Column:
    """Whether what is ``told`` of a message counts on from the same first death as this ``death`` does."""
    return (told["reason"] == death["reason"]) & (told["first"] == death["first"])


def since_return(deliveries: Column, deaths: Column) -> Column:
    """The deliveries since the message last came back from a death: a queue counts anew from there."""
    survived = F.filter(deaths, lambda death: F.exists(deliveries, lambda d: returned_from(d, death, deaths)))
    return F.filter(deliveries, lambda d: F.forall(survived, lambda death: returned_from(d, death, deaths)))


def since_arrival(deliveries: Column, deaths: Column) -> Column:
    """The deliveries since the message last came to its queue: back from a death, or published again under its id. Of
    the first one RabbitMQ says that it is not a redelivery."""
    arrived = F.struct(F.array_max(F.filter(deliveries, is_first))["time"].alias("time"))
    back = since_return(deliveries, deaths)
    return bound(arrived, lambda at: F.filter(back, lambda d: F.coalesce(d["time"] >= at["time"], F.lit(True))))


def until_published_again(told: Column, deliveries: Column, end: Column) -> Column:
    """What is ``told``, deliveries or failures, of the message that was done with at ``end``, without that of one that
    was published under its id later. All of it where the first delivery seems to be later, too: its events were
    collected late."""
    later = F.filter(deliveries, lambda d: is_first(d) & (d["time"] > end))
    known = F.exists(deliveries, lambda d: d["time"] <= end)
    again = F.struct(F.when(known, F.array_min(later)["time"]).alias("time"))
    return bound(again, lambda at: F.filter(told, lambda fact: F.coalesce(fact["time"] < at["time"], F.lit(True))))


def end_of_death(time: Column, evidence: Column) -> Column:
    """The time up to which what happened may have been before a death: ``x-death`` has whole seconds."""
    second = F.when(evidence == "observed", F.expr("INTERVAL 1 SECOND")).otherwise(F.expr("INTERVAL 0 SECOND"))
    return time + second


def is_first(delivery: Column) -> Column:
    """Whether RabbitMQ says that its queue had not delivered the message before; null where nobody says."""
    return ~delivery["redelivered"]
