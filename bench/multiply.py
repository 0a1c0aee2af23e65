"""Make a lake's history longer: the same queues' messages again, with other ids and so many days earlier.

    python bench/multiply.py --side ours --lake DIR --times 10 --days 30

A history of 60,000,000 messages takes hours to be taken in; to be written down it takes minutes. Each copy of the rows
of the history's queues gets ids of its own (hexadecimal digits rotated) and lies before the ones made so far. The
tables are those of a run on such a history but for bronze's texts, which keep the ids and times of the first one,
what is kept of the queues as a whole (profiles, samples, survival), which a run makes anew when the queue gets events,
and the counts of what was posted and never claimed. The textbook's bronze is not copied: its stream would read
it.
"""

import argparse
import json
import time
from datetime import datetime, timedelta

import ours
import textbook
from delta.tables import DeltaTable
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DateType, StructType, TimestampType

from deadletter import tables
from deadletter.gold.dead_letter_counts import dead_letter_counts
from deadletter.lake import Lake, Progress

DIGITS = "0123456789abcdef"
IDS = ("message_id", "claim_id", "event_id", "payload_event_id", "failed_in")
OF_HISTORY = "queue LIKE 'q%'"
CLAIMED = dict.fromkeys(("message_state", "judged_messages"), "size(deliveries) > 0") | {"messages": "size(claims) > 0"}
"""Of the messages those that the history claimed: the others wait for the batches."""
OURS = (
    tables.QUEUE_EVENTS,
    tables.MESSAGE_STATE,
    tables.CLAIMS,
    tables.CLAIM_ATTEMPTS,
    tables.DEAD_LETTERS,
    tables.QUEUE_HEALTH,
    tables.JUDGED_MESSAGES,
    tables.COUNTED_MESSAGES,
)
TEXTBOOK = ("messages", "attempts")


def rotated(copy):
    """The digits that ids of a copy have in the place of :data:`DIGITS`."""
    return DIGITS[copy:] + DIGITS[:copy]


def copied(value, name, kind, copy, days):
    """A column of a copy's rows: ids rotated, times and days earlier, everything else as it is."""
    if name in IDS:
        return F.translate(value, DIGITS, rotated(copy))
    if isinstance(kind, TimestampType):
        return value - F.make_dt_interval(F.lit(copy * days))
    if isinstance(kind, DateType):
        return F.date_sub(value, copy * days)
    if isinstance(kind, StructType):
        fields = [copied(value[f.name], f.name, f.dataType, copy, days).alias(f.name) for f in kind]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        return F.transform(value, lambda item: copied(item, "", kind.elementType, copy, days))
    return value


def copy_rows(rows, copy, days):
    """The rows of a table once more."""
    return rows.select(*[copied(F.col(f.name), f.name, f.dataType, copy, days).alias(f.name) for f in rows.schema])


def multiply_ours(path, times, days):
    spark = ours.start()
    lake = Lake(spark, path)
    done = lake.progress.all()
    for table in OURS:
        rows = lake.read(table, lake.version(table))
        rows = rows if table is tables.QUEUE_EVENTS else rows.where(OF_HISTORY).where(CLAIMED.get(table.name, "true"))
        told(
            table.full_name, times, lambda copy, rows=rows, table=table: lake.append(copy_rows(rows, copy, days), table)
        )
    lake.replace(dead_letter_counts(lake.read(tables.DEAD_LETTERS)), tables.DEAD_LETTER_COUNTS)
    policies = lake.read(tables.QUEUE_POLICIES)
    earlier = F.col("valid_from") - F.make_dt_interval(F.lit((times - 1) * days))
    valid_from = F.when(F.expr(OF_HISTORY), earlier).otherwise(F.col("valid_from"))
    lake.replace(policies.withColumn("valid_from", valid_from), tables.QUEUE_POLICIES)
    taken_in = lake.version(tables.QUEUE_EVENTS)
    lake.progress.note_all({step: Progress(taken_in, done[step].as_of) for step in ("silver", "gold")})


def multiply_textbook(path, times, days):
    spark = textbook.start()
    for name in TEXTBOOK:
        table = f"{path}/silver/{name}"
        version = DeltaTable.forPath(spark, table).history(1).first()["version"]
        rows = spark.read.format("delta").option("versionAsOf", version).load(table).where(OF_HISTORY)
        rows = rows.where(CLAIMED.get(name, "true"))
        told(
            f"silver.{name}",
            times,
            lambda copy, rows=rows, table=table: (
                copy_rows(rows, copy, days).write.format("delta").mode("append").save(table)
            ),
        )


def told(name, times, append):
    """Append all copies of a table but the first, which is there, and tell how long it took."""
    began = time.perf_counter()
    for copy in range(1, times):
        append(copy)
    print(json.dumps({"table": name, "seconds": round(time.perf_counter() - began, 1)}), flush=True)


def multiplied(rows, times, days):
    """The dead letters of a truth file, for each copy once."""
    for queue, message_id, died in rows:
        for copy in range(times):
            at = datetime.fromisoformat(died) - timedelta(days=copy * days)
            its_id = message_id.translate(str.maketrans(DIGITS, rotated(copy)))
            yield queue, its_id, at.isoformat(timespec="microseconds")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", required=True, choices=("ours", "textbook"))
    parser.add_argument("--lake", required=True)
    parser.add_argument("--times", required=True, type=int)
    parser.add_argument("--days", required=True, type=int)
    given = parser.parse_args()
    {"ours": multiply_ours, "textbook": multiply_textbook}[given.side](given.lake, given.times, given.days)
