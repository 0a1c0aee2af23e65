"""``deadletter cluster``: group any file's texts, so that anyone can check the grouping on their own data."""

from __future__ import annotations

import click

from deadletter.cli.common import PATH
from deadletter.errors import DeadletterError, UsageError


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--column", metavar="C", help="The text's column; not needed for a text file.")
@click.option(
    "--id", "id_column", metavar="I", help="The line id's column; default: the line's number from 1 (CSV: record's)."
)
@click.option(
    "--masks", type=PATH, metavar="FILE", help="More rows for the masking table, JSON or TOML: docs/patterns.md."
)
@click.option("--out", required=True, type=PATH, metavar="OUT.csv", help="Where to write line_id,cluster_id,template.")
def cluster(file: str, column: str | None, id_column: str | None, out: str, masks: str | None) -> None:
    """Group the texts of FILE (CSV, JSON lines or plain text, not packed) as poison messages are grouped.

    Needs no Spark and no lake.
    """
    from deadletter.patterns.cluster import cluster_file
    from deadletter.patterns.masking import load_masks
    from deadletter.patterns.masks import MASKS

    table = load_masks(masks) if masks else MASKS
    try:
        done = cluster_file(file, column, id_column, out, table)
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        if error.filename == file:
            raise UsageError(f"{file}: {error.strerror}") from None
        raise DeadletterError(f"cannot write {out}: {error.strerror}") from None
    click.echo(f"{done.lines} lines in {done.clusters} clusters: {out}")
