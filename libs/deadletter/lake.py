"""Where tables live, and the only module that reads and writes them.

A lake is a folder (``<lake>/<layer>/<table>`` is a Delta table) or, on Databricks, a catalog
(``<catalog>.<layer>.<table>``). Everything else in the package works on DataFrames.
"""

from __future__ import annotations

import contextlib
import fcntl
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError, UsageError, first_line
from deadletter.parallel import together
from deadletter.tables import ALL_TABLES, PROGRESS, Table, conform

CATALOG_PREFIX = "catalog:"


def sql_string(value: str) -> str:
    r"""Return ``value`` as a SQL string literal, whatever it holds.

    >>> print(sql_string("it's a \\ queue"))
    'it\'s a \\ queue'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def from_micros(micros: int | None) -> datetime | None:
    """The UTC time of microseconds since 1970: the same on every machine, whatever its time zone.

    >>> from_micros(1_500_000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return None if micros is None else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


@dataclass(frozen=True)
class Progress:
    """How far a step has come: its source's Delta version, and the ``as_of`` (UTC) it stands for."""

    source_version: int
    as_of: datetime | None


@dataclass(frozen=True)
class Lake:
    """A lake at ``root``: a folder's path, or ``catalog:NAME`` for a Databricks catalog."""

    spark: SparkSession
    root: str

    @property
    def catalog(self) -> str | None:
        """The catalog's name, or ``None`` where the lake is a folder."""
        return self.root.removeprefix(CATALOG_PREFIX) if self.root.startswith(CATALOG_PREFIX) else None

    @property
    def folder(self) -> str:
        """The folder for what is not a table: checkpoints, reports, the run lock."""
        return f"/Volumes/{self.catalog}/control/files" if self.catalog else str(Path(self.root).absolute())

    def identifier(self, table: Table) -> str:
        """The table's name as SQL takes it."""
        if self.catalog:
            return f"`{self.catalog}`.{table.layer}.{table.name}"
        escaped = f"{self.folder}/{table.layer}/{table.name}".replace("`", "``")
        return f"delta.`{escaped}`"

    def exists(self, table: Table) -> bool:
        """Whether the table has been created."""
        if self.catalog:
            return self.spark.catalog.tableExists(f"{self.catalog}.{table.layer}.{table.name}")
        return Path(self.folder, table.layer, table.name, "_delta_log").is_dir()

    def create_missing(self) -> None:
        """Create every table that is not there yet, with its comments, empty."""
        missing = [table for table in ALL_TABLES if not self.exists(table)]
        statements = [create_statement(self.identifier(table), table) for table in missing]
        together(partial(self.spark.sql, statement) for statement in statements)

    def read(self, table: Table, version: int | None = None) -> DataFrame:
        """Return the table's rows, now or as it was written at a Delta ``version``."""
        if not self.exists(table):
            raise UsageError(f"{self.root} holds no table {table.full_name}. Is it a lake? `deadletter run` makes one.")
        suffix = "" if version is None else f" VERSION AS OF {int(version)}"
        return self.spark.sql(f"SELECT * FROM {self.identifier(table)}{suffix}")

    def version(self, table: Table) -> int:
        """The table's newest Delta version."""
        row = self.spark.sql(f"DESCRIBE HISTORY {self.identifier(table)} LIMIT 1").select("version").first()
        return row["version"]

    def appended_since(self, table: Table, version: int | None) -> DataFrame:
        """Return the rows appended after ``version`` (all of them for ``None``); the table is append-only."""
        if version is None:
            return self.read(table)
        changes = f"table_changes({sql_string(self._changes_name(table))}, {version + 1})"
        if self.catalog is None:
            path = f"{self.folder}/{table.layer}/{table.name}"
            changes = f"table_changes_by_path({sql_string(path)}, {version + 1})"
        return self.spark.sql(f"SELECT * FROM {changes} WHERE _change_type = 'insert'").select(*table.column_names)

    def _changes_name(self, table: Table) -> str:
        return f"{self.catalog}.{table.layer}.{table.name}"

    def append_stream(self, df: DataFrame, table: Table, checkpoint: str) -> None:
        """Append what a stream has now, exactly once, and wait for its end."""
        writer = (
            conform(df, table)
            .writeStream.format("delta")
            .option("checkpointLocation", f"{self.folder}/_checkpoints/{table.name}/{checkpoint}")
            .trigger(availableNow=True)
        )
        try:
            if self.catalog:
                query = writer.toTable(f"{self.catalog}.{table.layer}.{table.name}")
            else:
                query = writer.start(f"{self.folder}/{table.layer}/{table.name}")
            query.awaitTermination()
        except PySparkException as error:
            raise DeadletterError(f"{table.full_name}: {first_line(error)}") from error

    def progress(self, step: str) -> Progress | None:
        """The newest note of ``step`` in ``control.progress``; ``None`` before its first."""
        notes = self.read(PROGRESS).where(F.col("step") == step).orderBy(F.col("finished_at").desc())
        row = notes.select("source_version", F.unix_micros("as_of").alias("as_of")).first()
        return Progress(row["source_version"], from_micros(row["as_of"])) if row else None

    def note_progress(self, step: str, version: int, as_of: datetime | None) -> None:
        """Note that ``step`` holds everything of its source up to ``version``."""
        row = self.spark.range(1).select(
            F.lit(step).alias("step"),
            F.lit(version).cast("bigint").alias("source_version"),
            F.lit(as_of).cast("timestamp").alias("as_of"),
            F.current_timestamp().alias("finished_at"),
        )
        self.append(row, PROGRESS)

    def append(self, df: DataFrame, table: Table) -> None:
        """Append rows that have the table's shape."""
        self._writer(conform(df, table), "append", table)

    def replace(self, df: DataFrame, table: Table, where: str = "true") -> None:
        """Put ``df`` in the place of the rows that match the SQL predicate ``where``, in one commit."""
        self._writer(conform(df, table), "overwrite", table, where)

    def _writer(self, df: DataFrame, mode: str, table: Table, where: str | None = None) -> None:
        writer = df.write.format("delta").mode(mode)
        if where and where != "true":
            writer = writer.option("replaceWhere", where)
        if self.catalog:
            writer.saveAsTable(f"{self.catalog}.{table.layer}.{table.name}")
        else:
            writer.save(f"{self.folder}/{table.layer}/{table.name}")

    def merge(self, df: DataFrame, table: Table, pruning: str = "true") -> None:
        """Merge facts into a table: keys match, sets unite, earliest values stay earliest.

        ``pruning`` is a predicate on the target ``t`` made of literals: only such predicates let Delta
        skip files. It must hold for every row that ``df`` can match. Rows that would not change are
        not rewritten.
        """
        view = f"facts_{uuid.uuid4().hex}"
        conform(df, table).createOrReplaceTempView(view)
        try:
            self.spark.sql(merge_statement(self.identifier(table), table, view, pruning))
        finally:
            self.spark.catalog.dropTempView(view)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lake for one writer. The lock ends with the process, however it ends."""
        if self.catalog:  # the scheduled job allows one run at a time
            yield
            return
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            handle = Path(self.folder, "_run.lock").open("w")  # noqa: SIM115 - held until the lock ends
        except OSError as error:
            raise DeadletterError(
                f"cannot write to the lake {self.folder}: {error.strerror}. Nothing was changed."
            ) from None
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DeadletterError(
                    f"another run is at work on {self.folder}; this one did nothing. Try again when it ends."
                ) from None
            yield


def create_statement(identifier: str, table: Table) -> str:
    """The SQL that creates ``table`` with every comment."""
    columns = ",\n  ".join(
        f"`{column.name}` {column.type} COMMENT {sql_string(column.comment)}" for column in table.columns
    )
    partitions = f"\nPARTITIONED BY ({', '.join(table.partitioned_by)})" if table.partitioned_by else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {identifier} (\n  {columns}\n) USING DELTA{partitions}\n"
        f"COMMENT {sql_string(table.comment)}\n"
        f"TBLPROPERTIES ({', '.join(f'{k!r} = {v!r}' for k, v in _properties(table).items())})"
    )


def _properties(table: Table) -> dict[str, str]:
    properties = {"delta.enableDeletionVectors": "true"}
    if table.name == "queue_events":  # read forward from the last version that was processed
        properties = {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}
    return properties


def merge_statement(identifier: str, table: Table, view: str, pruning: str) -> str:
    """The MERGE that joins facts: commutative, associative and idempotent for every column."""
    facts = [column for column in table.columns if column.name not in table.key]
    joined = {column.name: joined_value(column.name, column.type) for column in facts}
    keys = " AND ".join(f"t.`{name}` = s.`{name}`" for name in table.key)
    changed = " OR ".join(f"NOT (t.`{name}` <=> {value})" for name, value in joined.items()) or "false"
    updates = ", ".join(f"t.`{name}` = {value}" for name, value in joined.items())
    matched = f"WHEN MATCHED AND ({changed}) THEN UPDATE SET {updates}\n" if joined else ""
    return (
        f"MERGE INTO {identifier} t USING {view} s ON ({pruning}) AND {keys}\n{matched}WHEN NOT MATCHED THEN INSERT *"
    )


def joined_value(name: str, kind: str) -> str:
    """The least upper bound of a column's stored and arriving value, as SQL.

    Sets unite in a fixed order; anything else keeps the earliest, which ``least`` takes with nulls aside.

    >>> joined_value("seen", "timestamp")
    'least(t.`seen`, s.`seen`)'
    """
    if re.match(r"array<", kind):
        return f"array_sort(array_union(t.`{name}`, s.`{name}`))"
    return f"least(t.`{name}`, s.`{name}`)"


def literal_days(df: DataFrame, column: str, target: str) -> str:
    """A literal predicate for the days that occur in ``df[column]``; ``true`` if one is unknown.

    A row can lie a day beside: a claim tells a message's age in whole seconds only.
    """
    bounds = df.agg(
        F.min(column).alias("low"),
        F.max(column).alias("high"),
        F.bool_or(F.col(column).isNull()).alias("open"),
    ).first()
    if bounds["low"] is None or bounds["open"]:
        return "true"
    low, high = bounds["low"] - timedelta(days=1), bounds["high"] + timedelta(days=1)
    return f"(t.`{target}` BETWEEN DATE'{low}' AND DATE'{high}' OR t.`{target}` IS NULL)"
