"""Scenario D: version-1 records, which have no deliveries, become readable as version 2.

    python bench/upgrade.py WAY WORK RECORDS

WAY ``add-column`` changes the table's schema only, as the reviewers of RabbitMQ's proposal asked for: a record is
converted when it is next written. WAY ``rewrite`` writes every record again with an empty count, as the proposal did.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from records import rabbitmq_message, selected

from deadletter import tables
from deadletter.lake import Lake
from deadletter.lake.statements import create_statement
from deadletter.spark.session import get_spark, tune

ADDED = next(column for column in tables.MESSAGE_STATE.columns if column.name == "deliveries")
BEFORE = replace(
    tables.MESSAGE_STATE, columns=tuple(column for column in tables.MESSAGE_STATE.columns if column is not ADDED)
)


def version_1(lake, records):
    """Records of RabbitMQ messages in 1,000 queues, 30 days of them, without what version 2 adds."""
    lake.spark.sql(create_statement(lake.identifier(BEFORE), BEFORE))
    posted = "timestamp_seconds(1792000000 + id % 2592000)"
    rows = selected(lake.spark.range(0, records, 1, 8), BEFORE, rabbitmq_message(posted))
    lake.append(rows.repartition(8, "created_day"), BEFORE)


def data_files(lake):
    """The table's data files: name, size and time of the last change."""
    folder = Path(lake.folder, BEFORE.layer, BEFORE.name)
    return {
        (str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*.parquet")
        if "_delta_log" not in path.parts
    }


def add_column(lake):
    table = lake.identifier(tables.MESSAGE_STATE)
    lake.spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({ADDED.name} {ADDED.type})")


def rewrite(lake):
    add_column(lake)
    table = lake.identifier(tables.MESSAGE_STATE)
    lake.spark.sql(f"UPDATE {table} SET {ADDED.name} = array()")


def first_record(lake):
    """One record, read as version 2."""
    rows = lake.read(tables.MESSAGE_STATE).select(*tables.MESSAGE_STATE.column_names)
    return rows.selectExpr(f"coalesce(size({ADDED.name}), 0) AS count").first()


def measured(way, lake, records):
    """Seconds until the first record reads as version 2, and which data files were written for it."""
    version_1(lake, records)
    before = data_files(lake)
    began = time.perf_counter()
    {"add-column": add_column, "rewrite": rewrite}[way](lake)
    first_record(lake)
    seconds = round(time.perf_counter() - began, 3)
    written = len(data_files(lake) - before)
    counted = lake.read(tables.MESSAGE_STATE).selectExpr(
        "count(*) AS records", f"sum(coalesce(size({ADDED.name}), 0)) AS deliveries"
    )
    return counted.first().asDict() | {"seconds": seconds, "files": len(before), "files_written": written}


def main():
    way, work, records = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spark = get_spark()
    tune(spark, 1 << 40)
    measured(way, Lake(spark, f"{work}/warm"), 1000)  # what is told is the way's cost, not the start of a JVM
    told = measured(way, Lake(spark, f"{work}/lake"), records)
    if told["records"] != records or told["deliveries"] != 0:
        raise SystemExit(f"not readable as version 2: {told}")
    print(json.dumps(told))


if __name__ == "__main__":
    main()
