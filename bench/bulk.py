"""Scenarios A, F and H: raw files to gold, in one go."""

import sys

from contenders import HERE, SCRIPTS, empty, environment, figures, ratio, read_json, run_once, say
from generate import Spec, generate
from measure import in_turn, measured

TIMES = ("wall_seconds", "seconds")


def prepared(given):
    """The folder with the raw events, made once."""
    folder = given.data / f"bulk-{given.messages}"
    if not (folder / "sums.json").exists():
        say(f"writing the events of {given.messages:,} messages")
        generate(folder, Spec.of(given.messages))
    return folder


def bulk(given):
    """A: raw files to gold."""
    data = prepared(given)
    sides = [side for side in SCRIPTS if given.can_run(side)]
    runs = []
    for repetition, side in in_turn(sides, given.repetitions):
        runs.append(run_once(given, side, data) | {"repetition": repetition})
    ratios = [ratio(runs, "textbook", "ours", "wall_seconds", 3, most=False)]
    if "DuckDB" in sides:
        ratios.append(ratio(runs, "ours", "DuckDB", "wall_seconds", 1.5))
    if "delta-rs" in sides:
        ratios.append(ratio(runs, "ours", "delta-rs", "wall_seconds"))
    runs += [_floor(given, data) | {"repetition": repetition} for repetition in range(given.repetitions)]
    return _told("A. bulk: raw files to gold, whole process", data, runs, ratios)


def _floor(given, data):
    """Read, parse and write of the same bytes in Spark, and nothing else."""
    command = [sys.executable, str(HERE / "floor.py"), str(data / "landing"), str(empty(given.data / "work"))]
    told = {"side": "Spark: parse and write only"} | measured(command, environment())
    say(f"  parse and write only: {told['steps']}")
    return told


def gates(given):
    """F: the gates on and off, and plain Great Expectations checkpoints with the same rules on the same tables."""
    data = prepared(given)
    runs = []
    for repetition, side in in_turn(["gates on", "gates off"], given.repetitions):
        env = {"DEADLETTER_BENCH_GATES": "on" if side == "gates on" else "off"}
        ran = run_once(given, "ours", data, side, env=env, keep=side == "gates on")
        runs.append(ran | {"repetition": repetition})
        if side == "gates on":
            runs.append(_checkpoints(given) | {"repetition": repetition})
    ratios = [
        ratio(runs, "gates on", "gates off", "seconds", 1.1),
        ratio(runs, "GX checkpoints", "gates off", "seconds"),
    ]
    return _told("F. data quality gates, in A", data, runs, ratios)


def _checkpoints(given):
    command = [sys.executable, str(HERE / "gx_checkpoints.py"), str(given.data / "work")]
    told = {"side": "GX checkpoints"} | measured(command, environment())
    say(f"  GX checkpoints: {told['seconds']} s for {told['rules']} rules")
    return told


def scale_out(given):
    """H: one and two workers of a Spark standalone cluster, one core each."""
    data = prepared(given)
    runs = []
    for repetition, side in in_turn(["1 worker", "2 workers"], given.repetitions):
        cluster = [sys.executable, str(HERE / "cluster.py"), side.split()[0]]
        runs.append(run_once(given, "ours", data, side, command=cluster) | {"repetition": repetition})
    ratios = [ratio(runs, "2 workers", "1 worker", key) for key in TIMES]
    return _told("H. scale out: A on a Spark standalone cluster", data, runs, ratios)


def _told(what, data, runs, ratios):
    sums = read_json(data / "sums.json")
    return {"what": what, "data": sums, "runs": runs, "figures": figures(runs, TIMES), "ratios": ratios}
