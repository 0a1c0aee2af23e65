"""Bronze: the landing folder's new files, line by line, exactly once."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from deadletter import tables
from deadletter.errors import DeadletterError
from deadletter.lake import Lake
from deadletter.parallel import together
from deadletter.sources import landing as source
from deadletter.steps.summary import Tell


def ingest(lake: Lake, landing: str, tell: Tell = print) -> list[str]:
    """Take the landing folder's new files into ``bronze.queue_events``; returns warnings.

    Each file is read once (Structured Streaming, ``availableNow``). Where an archive is cut off, the lines
    before the damage are taken and the file is named in a warning.
    """
    files = source.landing_files(landing)
    lake.create_missing([tables.QUEUE_EVENTS])
    tell(f"bronze: reading new files among {len(files)} in {landing}")
    # the other tables are made beside it: nobody waits for them yet
    _, warnings = together([lake.create_missing, partial(_read_files, lake, landing, files)])
    return warnings


def _read_files(lake: Lake, landing: str, files: list[Path]) -> list[str]:
    if not files:
        return [f"{landing} holds no .jsonl or .jsonl.gz file: nothing to take in"]
    try:
        _stream(lake, landing, skip_corrupt=False)
    except DeadletterError:
        broken = source.truncated_archives(files)
        if not broken:
            raise
        _stream(lake, landing, skip_corrupt=True)
        return [
            f"{path}: damaged archive ({reason}). Its lines before the damage were taken; put the whole file "
            "there under another name, known lines count once."
            for path, reason in broken.items()
        ]
    return []


def _stream(lake: Lake, landing: str, skip_corrupt: bool) -> None:
    lines = source.read_lines(lake.spark, landing, skip_corrupt)
    lake.append_stream(source.queue_events(lines, landing), tables.QUEUE_EVENTS, source.checkpoint_name(landing))
