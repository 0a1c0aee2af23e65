"""The tables of a lake, read and written."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deadletter.errors import DeadletterError, MissingTableError, SchemaError, UsageError, first_line, storage_fault
from deadletter.lake.lock import folder_lock
from deadletter.lake.progress import ProgressNotes
from deadletter.lake.statements import LONGEST_WAIT, create_statement, merge_statement, revise_statement
from deadletter.spark.frames import frame_of, only_row
from deadletter.spark.parallel import together
from deadletter.spark.session import held_rows, tune
from deadletter.spark.sqltext import sql_name, sql_string
from deadletter.spark.staging import Rows, held
from deadletter.tables import ALL_TABLES, BY_NAME, QUEUE_EVENTS, Table, conform

CATALOG_PREFIX = "catalog:"
WILDCARDS = "[]{}*?\\"
NO_FOLDER = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/|~|catalog:|$")
"""How what is no path begins: a URI, a home folder that no shell has put in, a catalog without its name."""
PROCESS = f"{int(time.time())}-{uuid.uuid4().hex}"
"""This process, among those that stage frames in a lake, with the second in which it began: a folder in an object store
has no time of its own."""
STAGED_FOR = 86400
"""Seconds after which frames staged in a catalog are what a killed run left."""
STAGED_AS = {
    # most values differ: a dictionary of them takes a quarter of the time of a write
    "parquet.enable.dictionary": "false",
    # nobody looks for values in it, nor keeps it
    "parquet.column.statistics.enabled": "false",
    "parquet.size.statistics.enabled": "false",
    "parquet.page.write-checksum.enabled": "false",
}
"""How frames are staged."""
BY_HOURS = ("spark.databricks.delta.vacuum.retentionWindowIgnore.enabled", "false")
"""VACUUM goes by the hours that it is given, not by the table's own property alone, as it does by default."""
MOST_COMPARED = 1000
"""Up to so many rows are compared with those that are there, which costs less than a commit and what reads it."""


@dataclass(frozen=True)
class Lake:
    """A lake at ``root``: a folder's path, or ``catalog:NAME`` for a Databricks catalog."""

    spark: SparkSession
    root: str

    def __post_init__(self):
        if not self.catalog and NO_FOLDER.match(self.root):
            raise UsageError(
                f"{self.root} is no lake: a lake is a folder's path such as ./lake, or catalog:NAME on Databricks."
            )
        if not self.catalog and set(self.folder) & set(WILDCARDS):
            raise UsageError(f"lake {self.folder}: Spark reads {WILDCARDS} in a path as wildcards. Rename the folder.")

    @property
    def catalog(self) -> str | None:
        """The catalog's name, or ``None`` where the lake is a folder."""
        return self.root.removeprefix(CATALOG_PREFIX) if self.root.startswith(CATALOG_PREFIX) else None

    @cached_property
    def progress(self) -> ProgressNotes:
        """How far each step has come."""
        return ProgressNotes(self)

    @property
    def folder(self) -> str:
        """The folder for what is not a table: checkpoints, masks, Data Docs; here also the run lock, MLflow's store."""
        return f"/Volumes/{self.catalog}/control/files" if self.catalog else str(Path(self.root).absolute())

    def identifier(self, table: Table) -> str:
        """The table's name as SQL takes it."""
        place = self._place(table)
        return place if self.catalog else f"delta.{sql_name(place)}"

    def _place(self, table: Table) -> str:
        """Where the table is, as readers and writers take it: its full name, or its folder."""
        name = (table.layer, table.name)
        return ".".join((sql_name(self.catalog), *name)) if self.catalog else "/".join((self.folder, *name))

    def tune(self, new_bytes: int = 0) -> None:
        """Set the session up for a batch of so many bytes, or for a question, see
        :func:`deadletter.spark.session.tune`."""
        # all files that are there: asking Delta for those that count takes a hundred times as long
        events = 0
        for file in [] if self.catalog else Path(self._place(QUEUE_EVENTS)).rglob("*.parquet"):
            with contextlib.suppress(FileNotFoundError):  # another command tidies
                events += file.stat().st_size
        tune(self.spark, new_bytes, events)

    def exists(self, table: Table) -> bool:
        """Whether the table has been created."""
        if self.catalog:
            return self.spark.catalog.tableExists(self._place(table))
        # a folder without a first commit is what a killed run left
        return any(self._commits(table))

    def _commits(self, table: Table) -> Iterator[Path]:
        """The files of the commits in a folder's Delta log; the newest is always among them."""
        return Path(self._place(table), "_delta_log").glob(f"{'[0-9]' * 20}.json")

    def create_missing(self, tables: Iterable[Table] = ALL_TABLES) -> None:
        """Create every one of ``tables`` that is not there yet, with its comments, empty."""
        missing = [table for table in tables if not self.exists(table)]
        if not self.catalog:
            for table in missing:
                self._clear_half_made(table)
        statements = [create_statement(self.identifier(table), table, bool(self.catalog)) for table in missing]
        together(partial(self.spark.sql, statement) for statement in statements)

    def _clear_half_made(self, table: Table) -> None:
        """Remove the empty log of a table whose making was cut short: Delta takes it for a table and makes none."""
        folder = Path(self._place(table))
        if folder.is_dir() and {path.name for path in folder.iterdir()} <= {"_delta_log"}:
            shutil.rmtree(folder)

    def check_tables(self) -> None:
        """Raise :class:`SchemaError` where a table that is there has another shape than this version writes."""
        for table in filter(self.exists, ALL_TABLES):
            try:
                conform(self._rows(table), table)
            except SchemaError as error:
                raise SchemaError(
                    f"{self.root} was made by another version: {error}. Make a new lake from the landing folder."
                ) from None

    def read(self, table: Table, version: int | None = None) -> DataFrame:
        """Return the table's rows, now or as it was written at a Delta ``version``. Of a table in a folder that nobody
        wrote to yet they are none, also later."""
        if version is None and not self.catalog and self._unwritten(table):
            return frame_of(self.spark, [], table.ddl)  # Spark plans nothing that is joined with no rows
        return self._rows(table, "" if version is None else f" VERSION AS OF {int(version)}")

    def _rows(self, table: Table, suffix: str = "") -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {self._there(table)}{suffix}")

    def _unwritten(self, table: Table) -> bool:
        """Whether the table was created with the columns that it has here and nothing was ever written to it. The first
        version of a clone has rows."""
        if self.catalog:
            return self.version(table) == 0 and self._rows(table).isEmpty()
        commits = list(islice(self._commits(table), 2))
        if len(commits) != 1 or int(commits[0].stem) > 0:
            return False
        actions = _actions(commits[0])
        schemas = [json.loads(action["metaData"]["schemaString"]) for action in actions if "metaData" in action]
        names = [[field["name"] for field in schema["fields"]] for schema in schemas]
        return names == [table.column_names] and not any("add" in action for action in actions)

    def _there(self, table: Table) -> str:
        """The :meth:`identifier` of a table that has to be there."""
        if not self.exists(table):
            raise MissingTableError(self.root, table.full_name)
        return self.identifier(table)

    def query(self, text: str) -> DataFrame:
        """The rows of a SQL query that names this lake's tables as ``layer.table``."""
        known = "|".join(re.escape(table.full_name) for table in ALL_TABLES)
        return self.spark.sql(re.sub(rf"\b({known})\b", lambda name: self._there(BY_NAME[name[0]]), text))

    def version(self, table: Table) -> int:
        """The table's newest Delta version."""
        self._there(table)
        if self.catalog:
            history = self.spark.sql(f"DESCRIBE HISTORY {self.identifier(table)} LIMIT 1")
            return only_row(history.select("version"))["version"]
        return max(int(commit.stem) for commit in self._commits(table))  # a query takes a hundred times as long

    def size(self, table: Table) -> int:
        """The bytes of the table's newest version."""
        return only_row(self.spark.sql(f"DESCRIBE DETAIL {self.identifier(table)}").select("sizeInBytes"))[0]

    def appended_bytes(self, table: Table, version: int) -> int:
        """The bytes that were appended after ``version``; the table is append-only."""
        if self.catalog:
            newer = self.version(table) - version
            history = self.spark.sql(f"DESCRIBE HISTORY {self.identifier(table)} LIMIT {max(newer, 0)}")
            written = F.sum(F.col("operationMetrics")["numOutputBytes"].cast("bigint"))
            return only_row(history.select(written))[0] or 0
        commits = [commit for commit in self._commits(table) if int(commit.stem) > version]
        added = [action["add"] for commit in commits for action in _actions(commit) if "add" in action]
        return sum(file["size"] for file in added if file["dataChange"])  # what tidying wrote is no new data

    def appended_since(self, table: Table, version: int) -> DataFrame:
        """Return the rows appended after ``version``; the table is append-only."""
        function = "table_changes" if self.catalog else "table_changes_by_path"
        changes = f"{function}({sql_string(self._place(table))}, {version + 1})"
        return self.spark.sql(f"SELECT * FROM {changes} WHERE _change_type = 'insert'").select(*table.column_names)

    def append_stream(self, df: DataFrame, table: Table, checkpoint: str) -> None:
        """Append what a stream has now, exactly once, and wait for its end."""
        writer = (
            conform(df, table)
            .writeStream.format("delta")
            .option("checkpointLocation", f"{self.folder}/_checkpoints/{table.name}/{checkpoint}")
            .trigger(availableNow=True)
        )
        try:
            (writer.toTable if self.catalog else writer.start)(self._place(table)).awaitTermination()
        except PySparkException as error:
            raise DeadletterError(f"{table.full_name}: {first_line(error)}") from error

    def append_now(self, df: DataFrame, table: Table, name: str) -> None:
        """Append rows with the present time in the column ``name``, by which the newest row counts: one that is later
        than all that are there, as the clock may have been set back."""
        newest = self.read(table).agg(F.max(name).alias(name))
        later = F.greatest(F.current_timestamp(), F.col(name) + F.expr("INTERVAL 1 MICROSECOND"))
        self.append(df.crossJoin(newest).withColumn(name, later), table)

    def append(self, df: DataFrame, table: Table) -> None:
        """Append rows that have the table's shape."""
        self._writer(conform(df, table), "append", table)

    def replace(self, df: DataFrame, table: Table, where: str = "true") -> None:
        """Put ``df`` in the place of the rows that match the SQL predicate ``where``, in one commit.

        No commit is made where these rows are there already, as far as they are few. ``df`` is read twice. All its
        rows have to match, or none is written.
        """
        fault = f"a row that {table.full_name} gets is none of those that are replaced: report it"
        rows = conform(df, table).where(f"({where}) OR raise_error({sql_string(fault)}) IS NULL")
        unwritten = self._unwritten(table)
        wanted = few_rows(rows)
        if wanted is not None and wanted == (Counter() if unwritten else few_rows(self.read(table).where(where))):
            return
        if unwritten:  # there is nothing to take the place of, which Delta would look for
            self.append(rows, table)
        else:
            self._writer(rows, "overwrite", table, where)

    def _writer(self, df: DataFrame, mode: str, table: Table, where: str | None = None) -> None:
        if self.catalog and where:  # saveAsTable would make the table anew, which only its owner may
            df.writeTo(self._place(table)).overwrite(F.expr(where))
            return
        writer = df.write.format("delta").mode(mode)
        if where and where != "true":
            writer = writer.option("replaceWhere", where)
        (writer.saveAsTable if self.catalog else writer.save)(self._place(table))

    def merge(self, df: DataFrame, table: Table, pruning: str = "true") -> None:
        """Merge facts into a table: keys match, sets unite, earliest values stay earliest.

        ``pruning`` is a predicate on the target ``t`` made of literals: only such predicates let Delta
        skip files. It must hold for every row that ``df`` can match. Rows that would not change are
        not rewritten, and no commit is made for no rows. ``df`` is read several times.
        """
        rows = conform(df, table)
        if rows.isEmpty():
            return
        if self._unwritten(table):  # joining with nothing is an append
            self.append(df, table)
            return
        with self._view(rows) as view:
            self.spark.sql(merge_statement(self.identifier(table), table, view, pruning))

    @contextlib.contextmanager
    def _view(self, df: DataFrame) -> Iterator[str]:
        """A name for ``df`` that SQL can read, for a while."""
        view = f"deadletter_{uuid.uuid4().hex}"
        df.createOrReplaceTempView(view)
        try:
            yield view
        finally:
            self.spark.catalog.dropTempView(view)

    def stage(self, df: DataFrame, rows: Rows = Rows.OF_BATCH) -> DataFrame:
        """Compute ``df`` once and return its rows as a plain scan, for what is read several times in a run.

        A few rows are held in memory, see :func:`~deadletter.spark.staging.held` for this and ``rows``; others are
        written. Unlike a cache it survives a lost worker, works where caches are not supported, and keeps the plans of
        what is derived from it small. :meth:`clear_stage` removes what was written.
        """
        few = held(df, rows)
        if few is not None:
            return few
        path = f"{self._stage_folder}/{uuid.uuid4().hex}"
        df.write.options(**STAGED_AS).parquet(path)
        return self.spark.read.schema(df.schema).parquet(path)

    def clear_stage(self) -> None:
        """Remove what :meth:`stage` wrote, also what a killed run left: a catalog has no lock, so there another
        process's frames stay for a day."""
        for folder in Path(self._stage_folder).parent.glob("*"):
            if not self.catalog or folder.name == PROCESS or time.time() - _began(folder.name) > STAGED_FOR:
                shutil.rmtree(folder, ignore_errors=True)

    def stage_all(self, frames: Mapping[Table, Callable[[], DataFrame]]) -> dict[Table, DataFrame]:
        """What the functions make, each computed once, in the same order. Spark looks at a frame while it is made,
        which takes one core long enough to make several at once."""
        staged = together(partial(self._stage_made, make) for make in frames.values())
        return dict(zip(frames, staged, strict=True))

    def _stage_made(self, make: Callable[[], DataFrame]) -> DataFrame:
        return self.stage(make())

    def stage_few(self, df: DataFrame) -> DataFrame:
        """:meth:`stage` for what is usually :attr:`~deadletter.spark.staging.Rows.FEW`."""
        return self.stage(df, Rows.FEW)

    @property
    def _stage_folder(self) -> str:
        # a volume of its own: raw events are staged, which not everybody who reads this folder may see
        folder = f"/Volumes/{self.catalog}/bronze/stage" if self.catalog else f"{self.folder}/_stage"
        return f"{folder}/{PROCESS}"

    def compact(self, table: Table) -> tuple[int, int]:
        """Write the table's small files together; returns how many were taken and how many were written."""
        metrics = self.spark.sql(f"OPTIMIZE {self.identifier(table)}").select("metrics.*")
        row = only_row(metrics.select("numFilesRemoved", "numFilesAdded"))
        return row["numFilesRemoved"], row["numFilesAdded"]

    def vacuum(self, table: Table, retain_hours: int) -> None:
        """Delete files that no version younger than ``retain_hours`` needs, of an append-only table not before
        :data:`~deadletter.lake.statements.LONGEST_WAIT`."""
        # the table's own property says so, too: some versions of Delta refuse less
        hours = max(int(retain_hours), LONGEST_WAIT * 24 if table.append_only else 0)
        with contextlib.suppress(PySparkException):  # serverless sessions take no settings of Delta's
            self.spark.conf.set(*BY_HOURS)
        self.spark.sql(f"VACUUM {self.identifier(table)} RETAIN {hours} HOURS")

    def revise(self, df: DataFrame, table: Table, among: DataFrame) -> None:
        """Make the table hold, of the keys in ``among``, exactly the rows of ``df``, in one commit.

        ``among`` has the key columns, each key once; rows with other keys stay.
        """
        keys = list(table.key)
        rows = conform(df, table).withColumn("_kept", F.lit(True))
        with self._view(among.select(*keys).join(rows, keys, "left")) as view:
            self.spark.sql(revise_statement(self.identifier(table), table, view))

    def require_folder(self) -> None:
        """Raise :class:`UsageError` where the lake's path is something else than a folder."""
        if not self.catalog and Path(self.folder).exists() and not Path(self.folder).is_dir():
            raise UsageError(f"{self.root} is a file; a lake is a folder, or catalog:NAME.")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lake for one writer. The lock ends with the process, however it ends.

        A full or read-only disk is told as such, whichever layer of Spark stumbles over it meanwhile; and a lake that
        another version made, where Spark does.
        """
        self.require_folder()
        # a catalog needs none: the scheduled job allows one run at a time
        with contextlib.nullcontext() if self.catalog else folder_lock(self.folder):
            try:
                yield
            except Exception as error:
                plain = isinstance(error, DeadletterError) and error.__cause__ is None
                fault = None if plain else storage_fault(error)
                if fault is None:
                    self._check_version(error)
                    raise
                raise DeadletterError(
                    f"cannot write to the lake {self.folder}: {fault}. What was written before is whole. Make room or "
                    "grant access, then start the command again: it goes on from there."
                ) from error

    def _check_version(self, error: Exception) -> None:
        """Raise :class:`SchemaError` where ``error`` is of Spark, and a table has another shape than it should."""
        if isinstance(error, PySparkException) or isinstance(error.__cause__, PySparkException):
            with contextlib.suppress(PySparkException):  # the first error says as much
                self.check_tables()


def _began(process: str) -> int:
    """The second in which a :data:`PROCESS` began; 0 for what no process of this version left."""
    second = process.partition("-")[0]
    return int(second) if second.isdecimal() else 0


def _actions(commit: Path) -> list[dict]:
    """What a commit in a folder's Delta log did."""
    return [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]


def few_rows(df: DataFrame) -> Counter[str] | None:
    """How often each row is there; ``None`` where there are more than is worth comparing.

    >>> few_rows(spark.createDataFrame([(1, None), (1, None)], "a INT, b STRING"))
    Counter({'{"a":1}': 2})
    """
    most = min(held_rows(df.sparkSession), MOST_COMPARED)
    # as text: Python's times end where Spark's go on. Where none are compared, all that counts is whether there is one
    told = F.to_json(F.struct("*"), {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}) if most else F.lit("")
    rows = df.limit(most + 1).select(told).collect()
    return Counter(row[0] for row in rows) if len(rows) <= most else None
