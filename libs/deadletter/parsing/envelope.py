"""What all raw events share: one JSON object a line, with ``captured_at``."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

EARLIEST = "2000-01-01"
"""An event from before message brokers had clocks worth trusting is a broken clock."""

MOST_SECONDS = 100 * 365 * 86400
"""No TTL, delay or age of a message is longer; beyond, the sum of a time and a duration has no date."""
LATEST_SECONDS = 253402300799
"""The end of year 9999, in seconds since 1970."""


def clock(text: str) -> str:
    """SQL for an ISO 8601 time of the years 1 to 9999; null where ``text`` is none.

    A time without a day does not read: Spark would take today's.
    """
    day = r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}[T ][0-9]"
    return f"CASE WHEN {text} RLIKE '{day}' THEN try_cast({text} AS timestamp) END"


def epoch(text: str, per_second: int = 1) -> str:
    """SQL for the time that is so many seconds (or parts of one) since 1970; null outside the years 2000 to 9999."""
    number = f"try_cast({text} AS bigint)"
    low, high = 946684800 * per_second, LATEST_SECONDS * per_second
    return (
        f"CASE WHEN {number} BETWEEN {low} AND {high} THEN timestamp_micros({number} * {1_000_000 // per_second}L) END"
    )


def seconds(text: str) -> str:
    """SQL for a whole number of seconds from 0 to :data:`MOST_SECONDS`; null where ``text`` is none."""
    number = f"try_cast({text} AS bigint)"
    return f"CASE WHEN {number} BETWEEN 0 AND {MOST_SECONDS} THEN {number} END"


ENVELOPE_RULES = {
    "not_utf8: the line has bytes that are no UTF-8": "NOT utf8",
    "not_an_object: the line is a JSON array; write one event a line": ("utf8 AND startswith(ltrim(raw), '[')"),
    "not_json: the line is no JSON object; a writer may have been cut off": (
        "utf8 AND NOT startswith(ltrim(raw), '[') AND NOT readable"
    ),
    "no_captured_at: captured_at is missing or not an ISO 8601 time with an offset": "readable AND time IS NULL",
    "captured_at_too_early: captured_at is before 2000": f"readable AND time < TIMESTAMP'{EARLIEST} 00:00:00'",
    "captured_at_in_future: captured_at is more than a day after the line arrived": (
        "readable AND time > ingested_at + INTERVAL 1 DAY"
    ),
}
"""The rules every line must keep, whatever its broker; ``utf8`` are all its bytes, ``readable`` is one JSON object in
valid UTF-8."""

_READABLE = "utf8 AND startswith(ltrim(raw), '{') AND event IS NOT NULL AND event._corrupt IS NULL"


def read_envelope(bronze: DataFrame, system: str, fields: dict[str, str]) -> DataFrame:
    """Parse the raw lines of one system.

    Returns the bronze columns plus ``utf8`` (all bytes are), ``readable`` (the line is one JSON object), ``time``
    (``captured_at``, null where it does not read) and one string column for each of ``fields``, which maps a
    column's name to the JSON field's path.
    Nested values come as JSON text.
    """
    top = sorted({path.split(".")[0] for path in fields.values()} | {"captured_at"})
    schema = ", ".join(f"`{name}` STRING" for name in top) + ", _corrupt STRING"
    event = F.from_json("raw", schema, {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"})
    parsed = bronze.where(F.col("system") == system).withColumns({"event": event, "utf8": F.is_valid_utf8("raw")})
    time = F.expr(clock("event.captured_at"))
    columns = {name: F.expr(_field(path)) for name, path in fields.items()}
    return parsed.withColumns({"readable": F.expr(_READABLE), "time": time} | columns).drop("event")


def _field(path: str) -> str:
    first, _, rest = path.partition(".")
    return f"get_json_object(event.`{first}`, '$.{rest}')" if rest else f"event.`{first}`"
