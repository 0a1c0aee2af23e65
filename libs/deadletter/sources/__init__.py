"""Where raw events come from: the files of a landing folder, or the records of Kafka topics.

The one place that knows what ``--landing`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from deadletter.errors import UsageError
from deadletter.lake import NO_FOLDER
from deadletter.sources.landing import Folder
from deadletter.sources.topics import ADDRESS, SCHEME, parse_address


class Source(Protocol):
    """One stream of raw events, as it was when it was first asked; ``str()`` of it says what is read."""

    @property
    def checkpoint(self) -> str:
        """A folder name for the stream's checkpoint, the same for the same source."""

    @property
    def size(self) -> int:
        """Bytes that it may have, rather too many; an error that can be acted on if it cannot be read."""

    def ignored(self) -> list[str]:
        """A warning where something lies there that is not read."""

    def lines(self, spark: SparkSession, lenient: bool = False) -> DataFrame:
        """The stream: ``system``, ``value`` (the event as it came, a string) and ``source_file``.

        ``lenient`` reads what is left where :meth:`rescue` said so.
        """

    def rescue(self, error: Exception, checkpoint: Path, taken: DataFrame) -> Callable[[], None]:
        """Judge what stopped the stream: a clear error is raised, unless the rest can be read; what cannot is noted in
        the folder of its checkpoint, for :meth:`unread`.

        ``taken``: rows with the ``source_file`` of all that was read before. Returns what to call once the rest was
        read: it looks at what came meanwhile.
        """

    def gone(self, checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
        """A warning where something is gone that the stream has yet to read, by the notes in its checkpoint's folder.

        Asked before the stream reads on. ``taken``: gives the rows of all that was read.
        """

    def unread(self, checkpoint: Path, taken: Callable[[], DataFrame]) -> list[str]:
        """Warnings where something that lies there was not read, or not to its end, by the notes in its checkpoint's
        folder.

        Asked when the stream has ended. ``taken``: gives the rows of all that was read.
        """


def find(landing: str) -> list[Source]:
    """The sources that ``landing`` names: a folder's path, or ``kafka://SERVERS/SYSTEM=TOPIC,...``.

    Raises :class:`~deadletter.errors.UsageError` where it cannot be read as either. Looks at nothing yet.
    """
    if is_kafka(landing):
        return list(parse_address(landing))
    if NO_FOLDER.match(landing):
        raise UsageError(f"{landing} is no landing folder: write a folder's path, or {ADDRESS}")
    return [Folder(landing)]


def is_kafka(landing: str) -> bool:
    """Whether Spark needs its Kafka connector to read ``landing``.

    >>> is_kafka("kafka://host:9092/zaqar=taps"), is_kafka("/data/landing")
    (True, False)
    """
    return landing.startswith(SCHEME)
