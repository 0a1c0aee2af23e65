"""Task: write small files together and delete replaced ones, in every table."""

import argparse

from deadletter.lake import Lake
from deadletter.spark.session import get_spark
from deadletter.steps.maintenance import SHORTEST_RETENTION, maintain


def main(arguments: list[str] | None = None) -> None:
    """Tidy the lake; ``arguments`` are the task's parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lake", required=True, help="folder, or catalog:NAME")
    parser.add_argument("--retain-hours", type=int, default=SHORTEST_RETENTION, help="how long replaced files stay")
    given = parser.parse_args(arguments)
    for tidied in maintain(Lake(get_spark(), given.lake), given.retain_hours):
        print(tidied)


if __name__ == "__main__":
    main()
