"""What A cannot be faster than in Spark: read, parse and write of the same bytes, one query each.

    python bench/floor.py LANDING WORK

``read`` scans the lines, ``parse`` reads the fields of every exchange, both into nothing; ``write`` writes the lines
as a Delta table; ``parse and write`` writes the parsed exchanges.
"""

import json
import sys

from pyspark.sql import functions as F
from side import timed
from textbook import EVENT, start


def main():
    landing, work = sys.argv[1:]
    spark = start()
    lines = spark.read.text(f"{landing}/zaqar")
    parsed = lines.select(F.from_json("value", EVENT).alias("e")).select("e.*")
    sized = lines.limit(1000)
    sized.write.format("noop").mode("overwrite").save()  # the first query pays for the start
    steps = {}
    for name, frame in (("read", lines), ("parse", parsed)):
        steps[name], _ = timed(frame.write.format("noop").mode("overwrite").save)
    for name, frame in (("write", lines), ("parse and write", parsed)):
        steps[name], _ = timed(frame.write.format("delta").mode("overwrite").save, f"{work}/{name.replace(' ', '-')}")
    print(json.dumps({"seconds": steps["parse and write"], "steps": steps}))


if __name__ == "__main__":
    main()
