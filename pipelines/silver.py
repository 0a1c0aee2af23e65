"""Task: merge the facts of bronze's new events into the silver tables."""

import argparse

from deadletter.lake import Lake
from deadletter.spark.session import get_spark
from deadletter.steps import Summary
from deadletter.steps.quality import gated
from deadletter.steps.run import merge


def main(arguments: list[str] | None = None) -> None:
    """Run the layer; ``arguments`` are the task's parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", required=True, help="folder, or catalog:NAME")
    given = parser.parse_args(arguments)
    lake, summary = Lake(get_spark(), given.lake), Summary()
    try:
        with gated(lake) as gate:
            merge(lake, gate, summary)
        summary.warnings += gate.warnings
    finally:
        for name in ("as_of", "events_in", "events_new", "events_quarantined", "events_silent"):
            print(f"{name}: {getattr(summary, name)}")
        for warning in summary.warnings:
            print(f"warning: {warning}")


if __name__ == "__main__":
    main()
