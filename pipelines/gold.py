"""Task: derive the gold tables from the facts that happened until a time."""

import argparse
from datetime import datetime

from deadletter.lake import Lake
from deadletter.rules.zaqar_store import STORES
from deadletter.spark.session import get_spark
from deadletter.steps import gold
from deadletter.steps.quality import gated
from deadletter.times import utc


def time_or_none(text: str) -> datetime | None:
    """The time in UTC; a job's parameter that is not set is empty."""
    return utc(text) if text else None


def main(arguments: list[str] | None = None) -> None:
    """Run the layer; ``arguments`` are the task's parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", required=True, help="folder, or catalog:NAME")
    parser.add_argument("--as-of", type=time_or_none, help="ISO 8601; empty: the greatest event time")
    parser.add_argument(
        "--zaqar-store", default="", choices=["", *STORES], help="whose habits to replay; empty: the last run's"
    )
    given = parser.parse_args(arguments)
    lake = Lake(get_spark(), given.lake)
    with gated(lake) as gate:
        gold.derive(lake, gate, given.as_of, habits=STORES.get(given.zaqar_store))
    for warning in gate.warnings:
        print(f"warning: {warning}")


if __name__ == "__main__":
    main()
