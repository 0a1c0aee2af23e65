"""The benchmark: python bench/run.py [--only A,B] [--quick] [options]

Scenarios: A bulk, B growth, C latency, D upgrade, E new limit, F gates, G grouping, H scale out. The figures go to
docs/performance.json (scenarios that were not run keep theirs), the tables to docs/performance.md and the plot to
docs/images/. A quick run writes beside its data, not into docs/. DuckDB, Polars, delta-rs and Drain3 run under an
interpreter of their own, which --peers or DEADLETTER_BENCH_PYTHON names; without it they are left out, and that
is told.
"""

import argparse
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import report
from bulk import bulk, gates, scale_out
from contenders import Given, say
from extras import grouping, new_limit, upgrade
from growth import growth, latency
from measure import machine, versions

SCENARIOS = {
    "A": bulk,
    "B": growth,
    "C": latency,
    "D": upgrade,
    "E": new_limit,
    "F": gates,
    "G": grouping,
    "H": scale_out,
}
ROOT = Path(__file__).parent.parent
FULL = {
    "messages": 6_000_000,
    "sizes": "600000,6000000,60000000",
    "records": 6_000_000,
    "texts": 1_000_000,
    "repetitions": 3,
    "batches": 3,
    "flat": 50,
}
QUICK = {
    "messages": 20_000,
    "sizes": "6000,60000",
    "records": 20_000,
    "texts": 50_000,
    "repetitions": 1,
    "batches": 2,
    "flat": 0,
}
SOON = "ADEG"
"""Scenarios of a quick run; the others make lakes or a cluster first, or run A three times more."""
HELP = {
    "messages": "messages of A, F and H",
    "sizes": "messages in the lakes of B, by commas; the largest up to --messages serves C",
    "records": "records of D, messages of E",
    "texts": "texts of G",
    "repetitions": "runs of each side",
    "batches": "batches of B in one process; the first is told apart",
    "flat": "batches in a row at the end of B",
}


def options():
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--only", help=f"letters of scenarios, e.g. A or B,C (all; quick: {SOON})")
    parser.add_argument("--quick", action="store_true", help="small data, one repetition: minutes")
    parser.add_argument("--data", type=Path, default=ROOT / "bench-data", help="folder for data and lakes")
    parser.add_argument("--out", type=Path, help="where to write the figures")
    parser.add_argument("--peers", default=os.environ.get("DEADLETTER_BENCH_PYTHON"), help="the peers' interpreter")
    parser.add_argument(
        "--lines", type=Path, help="G: a folder of CSVs with Content and EventId, as Loghub's, to multiply"
    )
    for name, default in FULL.items():
        parser.add_argument(f"--{name}", type=type(default), help=f"{HELP[name]} ({default}; quick: {QUICK[name]})")
    return parser.parse_args()


def given_by(asked):
    chosen = QUICK if asked.quick else FULL
    sizes = {name: getattr(asked, name) if getattr(asked, name) is not None else chosen[name] for name in chosen}
    sizes["sizes"] = tuple(sorted(int(size) for size in sizes["sizes"].split(",")))
    return Given(asked.data.absolute(), asked.peers, asked.lines, **sizes)


def main():
    asked = options()
    given = given_by(asked)
    given.data.mkdir(parents=True, exist_ok=True)
    out = asked.out or (given.data / "quick.json" if asked.quick else ROOT / "docs" / "performance.json")
    if not given.peers:
        say("DuckDB, Polars, delta-rs and Drain3 are left out: name their interpreter with --peers")
    about = {"machine": machine(), "versions": versions(given.peers)}
    chosen = asked.only or (SOON if asked.quick else "".join(SCENARIOS))
    for letter in [letter for letter in chosen.upper() if letter in SCENARIOS]:
        began, load = time.perf_counter(), os.getloadavg()[0]
        say(f"{letter}: {SCENARIOS[letter].__doc__.splitlines()[0]}")
        told = SCENARIOS[letter](given) | about | {"load_before": load}
        told["when"] = f"{datetime.now(UTC):%Y-%m-%d}"
        told["took_seconds"] = round(time.perf_counter() - began)
        report.keep(out, letter, told)
    print("\n\n".join(report.tables(report.read(out)).values()))
    if not asked.quick and not asked.out:
        report.publish(out, ROOT / "docs")


if __name__ == "__main__":
    main()
