"""Bronze: what is new in the landing folder or the topics, event by event, exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from deadletter import tables
from deadletter.bronze.events import queue_events
from deadletter.errors import DeadletterError
from deadletter.lake import Lake
from deadletter.sources import Source
from deadletter.spark.parallel import together
from deadletter.steps.summary import Tell


def ingest(lake: Lake, found: Sequence[Source], tell: Tell = print) -> list[str]:
    """Take what is new at the sources into ``bronze.queue_events``; returns warnings.

    Each file and each record is read once (Structured Streaming, ``availableNow``). Where an archive is cut
    off, the lines before the damage are taken and the file is named in a warning.
    """
    sizes = [source.size for source in found]  # what cannot be read is told before anything is made
    lake.create_missing([tables.QUEUE_EVENTS])
    for source in found:
        tell(f"bronze: reading {source}")
    reads = [partial(_take_in, lake, source, size, tell) for source, size in zip(found, sizes, strict=True)]
    _, *taken = together([partial(_prepare, lake), *reads])
    return [warning for warnings in taken for warning in warnings]


def _prepare(lake: Lake) -> None:
    """Make the other tables, and read the notes that silver begins with: nobody waits for either yet."""
    lake.create_missing()
    lake.progress.all()


def _take_in(lake: Lake, source: Source, size: int, tell: Tell) -> list[str]:
    """Read one source; returns warnings. What is gone is told at once as well: no later run has it again, should this
    one be killed."""
    checkpoint = Path(lake.folder, "_checkpoints", tables.QUEUE_EVENTS.name, source.checkpoint)
    taken = partial(lake.read, tables.QUEUE_EVENTS)
    gone = source.gone(checkpoint, taken)
    for warning in gone:
        tell(f"warning: {warning}")
    warnings = source.ignored() + gone
    if not size:
        # what was taken in may be moved away
        if not checkpoint.exists():
            warnings.append(f"{source}: nothing to take in")
    else:
        _stream_or_rescue(lake, source, checkpoint, taken)
    return warnings + source.unread(checkpoint, taken)


def _stream_or_rescue(lake: Lake, source: Source, checkpoint: Path, taken: Callable[[], DataFrame]) -> None:
    try:
        _stream(lake, source)
    except (DeadletterError, PySparkException) as error:
        look_again = source.rescue(error, checkpoint, taken())
        _stream(lake, source, lenient=True)
        look_again()


def _stream(lake: Lake, source: Source, lenient: bool = False) -> None:
    events = queue_events(source.lines(lake.spark, lenient))
    lake.append_stream(events, tables.QUEUE_EVENTS, source.checkpoint)
