"""How a function is told to keep a frame that it reads several times; a run gives ``Lake.stage``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deadletter.spark.session import LARGE_BATCH, held_rows

HELD_BYTES = 64 << 20
LONG = ("raw", "payload")
"""Columns of which a single row can hold megabytes: a driver refuses a result of more than one gigabyte, or fails."""
WIDE = ("traits", "lengths")
"""Columns of which a single row can hold millions of values."""
LONGEST = 16_000
"""Characters or values up to which such a column is held: so many rows of no longer ones are few enough to be looked
at."""
TOO_LARGE = "spark.driver.maxResultSize"
"""What Spark names where a driver refuses a result: some other column than these was long."""
Stage = Callable[[DataFrame], DataFrame]


def as_it_is(frame: DataFrame) -> DataFrame:
    """Keep nothing: what is read twice is made twice."""
    return frame


class Rows(Enum):
    """What a frame's number of rows depends on."""

    OF_BATCH = "the batch"
    """As many as the batch has of something: one frame of too many says that others have too many as well."""
    OF_LAKE = "the lake"
    """As many as the lake has of something: they say nothing of the batch."""
    FEW = "what there is to tell"
    """Few, however large the batch is: what dead letters say, patterns, the names of queues."""


def held(df: DataFrame, rows: Rows = Rows.OF_BATCH) -> DataFrame | None:
    """The rows of ``df`` held in memory, or ``None`` where they are more than may be held.

    After a frame of too many rows of the batch only few ones are held until the session is tuned again: the batch is
    larger than it looked, and to find that out for each frame costs more than it spares.
    """
    session = df.sparkSession
    most = held_rows(session, few=rows is Rows.FEW)
    found = _held(df, most) if most else None
    if found is None and most and rows is Rows.OF_BATCH:
        session.conf.set(LARGE_BATCH, "true")
    return found


def held_if_few(df: DataFrame) -> DataFrame:
    """The rows of ``df`` held in memory where they are few, else ``df`` as it is: for what a lake has already."""
    rows = held(df, Rows.OF_LAKE)
    return df if rows is None else rows


def _held(df: DataFrame, most: int) -> DataFrame | None:
    """Spark writes and reads no file for held rows, and plans what is derived from them with their values: what is
    joined with no rows is not planned at all."""
    schema = df.schema.toNullable()  # which is what rows that were written are read with
    # Arrow takes no null for a struct of which a field is said never to be null.
    pairs = zip(df.schema, schema, strict=True)
    casts = {to.name: F.col(to.name).cast(to.dataType) for it, to in pairs if it.dataType != to.dataType}
    long = [name for name in LONG if name in df.columns]
    wide = [name for name in WIDE if name in df.columns]
    casts |= {name: F.left(F.col(name), F.lit(LONGEST + 1)) for name in long}
    casts |= {name: F.slice(casts.get(name, F.col(name)), 1, LONGEST + 1) for name in wide}
    fitting = df.withColumns(casts) if casts else df  # Spark Connect takes no empty list
    # the limit first: a scan stays in as many tasks as it has, and only what they found comes together
    try:
        rows = fitting.limit(most + 1).coalesce(1).toArrow()
    except Exception as error:  # a classic session leaves this call's errors as Java's
        if TOO_LARGE not in str(error):
            raise
        return None
    # not `nbytes`: that reads offsets, which Spark Connect's empty arrays have none of, and ends the process
    if rows.num_rows > most or rows.get_total_buffer_size() > HELD_BYTES:
        return None
    if rows.num_rows and any((compute.max(length).as_py() or 0) > LONGEST for length in _lengths(rows, long, wide)):
        return None
    # told to be one partition: Spark sees no need to bring together what is grouped or joined
    return df.sparkSession.createDataFrame(rows, schema).coalesce(1)


def _lengths(rows: pa.Table, long: Sequence[str], wide: Sequence[str]) -> Iterator[pa.ChunkedArray]:
    yield from (compute.utf8_length(rows[name]) for name in long)
    yield from (compute.list_value_length(rows[name]) for name in wide)
