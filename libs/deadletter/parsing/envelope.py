"""What all raw events share: one JSON object a line, with ``captured_at``."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

EARLIEST = "2000-01-01"
"""An event from before message brokers had clocks worth trusting is a broken clock."""

ENVELOPE_RULES = {
    "not_utf8: the line has bytes that are no UTF-8": "NOT is_valid_utf8(raw)",
    "not_an_object: the line is a JSON array; write one event a line": (
        "is_valid_utf8(raw) AND startswith(ltrim(raw), '[')"
    ),
    "not_json: the line is no JSON object; a writer may have been cut off": (
        "is_valid_utf8(raw) AND NOT startswith(ltrim(raw), '[') AND NOT readable"
    ),
    "no_captured_at: captured_at is missing or not an ISO 8601 time with an offset": "readable AND time IS NULL",
    "captured_at_too_early: captured_at is before 2000": f"readable AND time < TIMESTAMP'{EARLIEST} 00:00:00'",
    "captured_at_in_future: captured_at is more than a day after the line arrived": (
        "readable AND time > ingested_at + INTERVAL 1 DAY"
    ),
}
"""The rules every line must keep, whatever its broker; ``readable`` is one JSON object in valid UTF-8."""

_READABLE = "is_valid_utf8(raw) AND startswith(ltrim(raw), '{') AND event IS NOT NULL AND event._corrupt IS NULL"


def read_envelope(bronze: DataFrame, system: str, fields: dict[str, str]) -> DataFrame:
    """Parse the raw lines of one system.

    Returns the bronze columns plus ``readable`` (the line is one JSON object), ``time`` (``captured_at``,
    null where it does not read) and one string column for each of ``fields``, which maps a column's name to
    the JSON field's path.
    Nested values come as JSON text.
    """
    top = sorted({path.split(".")[0] for path in fields.values()} | {"captured_at"})
    schema = ", ".join(f"`{name}` STRING" for name in top) + ", _corrupt STRING"
    event = F.from_json("raw", schema, {"columnNameOfCorruptRecord": "_corrupt", "mode": "PERMISSIVE"})
    parsed = bronze.where(F.col("system") == system).withColumn("event", event)
    time = F.expr("try_cast(event.captured_at AS timestamp)")
    columns = {name: F.expr(_field(path)) for name, path in fields.items()}
    return parsed.withColumns({"readable": F.expr(_READABLE), "time": time} | columns)


def _field(path: str) -> str:
    first, _, rest = path.partition(".")
    return f"get_json_object(event.`{first}`, '$.{rest}')" if rest else f"event.`{first}`"
