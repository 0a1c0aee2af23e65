"""Grouping accuracy on labelled log lines: python bench/grouping.py DATA [--drain PYTHON].

DATA is a folder of CSV files with the columns LineId, Content and EventId (the corrected labels), and
perhaps EventIdOriginal (the first ones). One configuration for all of them: ours has none, Drain3 runs
with its defaults. Drain3 wants other versions of its dependencies than this project, so it runs under
an interpreter of its own, named by --drain or the environment variable DEADLETTER_DRAIN_PYTHON:

    python3 -m venv /tmp/drain && /tmp/drain/bin/pip install drain3
    make grouping DATA=DIR DEADLETTER_DRAIN_PYTHON=/tmp/drain/bin/python

GA is the share of lines whose group holds exactly the lines of their event; FGA is the harmonic mean of
the shares of our groups, and of the events, that are exactly right.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from deadletter.patterns.grouping import group_rows

DRAIN = """
import json, sys
from drain3 import TemplateMiner
for path in json.load(sys.stdin):
    miner = TemplateMiner()
    lines = json.load(open(path))
    print(json.dumps([miner.add_log_message(line)["cluster_id"] for line in lines]))
"""


def accuracy(predicted, true):
    """Return GA and FGA of two equally long lists of labels."""
    ours, theirs = Counter(predicted), Counter(true)
    both = Counter(zip(predicted, true, strict=True))
    right = [n for (p, t), n in both.items() if n == ours[p] == theirs[t]]
    precision, recall = len(right) / len(ours), len(right) / len(theirs)
    total = precision + recall
    return sum(right) / len(true), 2 * precision * recall / total if total else 0.0


def read(path):
    with path.open(newline="", encoding="utf-8", errors="replace") as lines:
        rows = list(csv.DictReader(lines))
    missing = {"LineId", "Content", "EventId"} - set(rows[0] if rows else ())
    if missing:
        raise SystemExit(f"{path}: no column {', '.join(sorted(missing))}")
    return rows


def drained(python, sets, scratch):
    """The labels of Drain3 for each set, or why there are none."""
    if not python:
        return "no interpreter with drain3 was named (--drain)"
    if subprocess.run([python, "-c", "import drain3"], capture_output=True, check=False).returncode:
        return f"{python} cannot import drain3"
    paths = []
    for name, rows in sets.items():
        paths.append(str(scratch / f"{name}.json"))
        Path(paths[-1]).write_text(json.dumps([row["Content"] for row in rows]))
    command = [python, "-c", DRAIN]
    ran = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=True)
    return dict(zip(sets, map(json.loads, ran.stdout.splitlines()), strict=True))


def table(sets, ours, theirs, labels):
    shown = isinstance(theirs, dict)
    heads = ["GA", "FGA"] + (["Drain3 GA", "FGA"] if shown else [])
    print(f"\nagainst {labels}:")
    print(f"{'set':12} {'lines':>6} {'events':>6} {'groups':>6} " + " ".join(f"{head:>9}" for head in heads))
    sums = Counter()
    for name, rows in sets.items():
        true = [row[labels] for row in rows]
        scores = accuracy(ours[name], true) + (accuracy(theirs[name], true) if shown else ())
        sums.update(dict(enumerate(scores)))
        print(f"{name:12} {len(rows):6} {len(set(true)):6} {len(set(ours[name])):6} {numbers(scores)}")
    print(f"{'mean':33} {numbers([sums[n] / len(sets) for n in range(len(heads))])}")


def numbers(scores):
    return " ".join(f"{score:9.4f}" for score in scores)


def main():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("data", type=Path)
    parser.add_argument("--drain", default=os.environ.get("DEADLETTER_DRAIN_PYTHON"))
    given = parser.parse_args()
    sets = {path.stem: read(path) for path in sorted(given.data.glob("*.csv"))}
    if not sets:
        sys.exit(f"{given.data}: no CSV files with labelled lines")
    started = time.perf_counter()
    ours = {name: [t.template_id for t in group_rows([r["Content"] for r in rows])] for name, rows in sets.items()}
    took = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as scratch:
        theirs = drained(given.drain, sets, Path(scratch))
    print(f"{sum(map(len, sets.values()))} lines grouped in {took:.1f} s, one process, no settings")
    if isinstance(theirs, str):
        print(f"Drain3 left out: {theirs}")
    for labels in ("EventId", "EventIdOriginal"):
        if all(labels in rows[0] for rows in sets.values()):
            table(sets, ours, theirs, labels)


if __name__ == "__main__":
    main()
