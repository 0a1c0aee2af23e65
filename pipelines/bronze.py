"""Task: take the landing folder's new files, or new records of Kafka topics, into bronze.queue_events."""

import argparse

from deadletter import sources
from deadletter.lake import Lake
from deadletter.spark.session import get_spark
from deadletter.steps import bronze


def main(arguments: list[str] | None = None) -> None:
    """Run the layer; ``arguments`` are the task's parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--landing", required=True, help="folder with one folder a system, or kafka://HOST:PORT/SYSTEM=TOPIC"
    )
    parser.add_argument("--lake", required=True, help="folder, or catalog:NAME")
    given = parser.parse_args(arguments)
    spark = get_spark(kafka=sources.is_kafka(given.landing))
    lake = Lake(spark, given.lake)
    with lake.lock():
        for warning in bronze.ingest(lake, sources.find(given.landing)):
            print(f"warning: {warning}")


if __name__ == "__main__":
    main()
