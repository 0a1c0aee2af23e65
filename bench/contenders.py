"""How each contender is started, and what a scenario is told."""

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import found, measured, require_same, spread, truth

HERE = Path(__file__).parent
SCRIPTS = {
    "ours": "ours.py",
    "textbook": "textbook.py",
    "DuckDB": "duckdb_peer.py",
    "delta-rs": "deltars_peer.py",
}
OTHER_PYTHON = ("DuckDB", "delta-rs", "Drain3", "Drain3 with masks")


@dataclass(frozen=True)
class Given:
    """What the command line asks for. ``peers``: the interpreter with DuckDB, Polars, delta-rs and Drain3;
    ``lines``: a folder of labelled lines for G."""

    data: Path
    peers: str | None
    lines: Path | None
    messages: int
    repetitions: int
    sizes: tuple[int, ...]
    batches: int
    flat: int
    records: int
    texts: int

    def can_run(self, side):
        """Whether there is an interpreter for a contender."""
        return self.peers is not None or side not in OTHER_PYTHON

    def python(self, side):
        return self.peers if side in OTHER_PYTHON else sys.executable

    def command(self, side, landing, work, dead=None, feed=None):
        """The command that runs a contender on a landing folder."""
        script = HERE / SCRIPTS[side]
        return [
            *(self.python(side), str(script), "--landing", str(landing), "--work", str(work)),
            *(["--dead", str(dead)] if dead else []),
            *(["--feed", *map(str, feed)] if feed is not None else []),
        ]


def environment(**more):
    """What a contender's process gets: this checkout's package first, and enough memory for a JVM. With 4 GB the
    textbook ended in one of three runs of A."""
    paths = [str(HERE.parent / "libs"), *filter(None, [os.environ.get("PYTHONPATH")])]
    memory = os.environ.get("DEADLETTER_DRIVER_MEMORY", "8g")
    return {"PYTHONPATH": os.pathsep.join(paths), "DEADLETTER_DRIVER_MEMORY": memory} | more


def empty(folder):
    """The folder, without what was in it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_once(given, side, data, label=None, command=None, env=None, keep=False):
    """One run of a contender on ``data`` into an empty folder, its dead letters checked; the raw figures."""
    label = label or side
    work = empty(given.data / "work")
    dead = given.data / "dead.csv"
    line = [*given.command(side, data / "landing", work, dead), "--sums"]
    figures = measured((command or []) + line, environment(**(env or {})))
    require_same(found(dead), truth(data / "truth.csv"), label)
    written = read_json(data / "sums.json")
    if wrong := {key: n for key, n in figures["sums"].items() if n != written[key]}:
        raise SystemExit(f"{label}: {wrong}, and the generator wrote {written}")
    if not keep:
        shutil.rmtree(work)
    say(f"  {label}: {figures['wall_seconds']} s, {figures['seconds']} s of work, {figures['peak_mb']} MB at most")
    return {"side": label} | figures


def values(runs, side, key):
    """A figure of a side's runs by repetition."""
    return {run["repetition"]: run[key] for run in runs if run["side"] == side and key in run}


def ratio(runs, above, below, key, target=None, most=True):
    """The ratio of two sides' figures, repetition by repetition. ``most``: the target is the most it may be."""
    over, under = values(runs, above, key), values(runs, below, key)
    told = {"what": f"{above} / {below}", "figure": key}
    told |= spread([over[n] / under[n] for n in over if n in under])
    if target is None:
        return told
    met = told["median"] <= target if most else told["median"] >= target
    return told | {"target": f"{'at most' if most else 'at least'} {target}", "met": met}


def figures(runs, keys):
    """Median and spread of each side's figures, and its peak memory."""
    told = {}
    for side in dict.fromkeys(run["side"] for run in runs):
        told[side] = {key: spread(list(found.values())) for key in keys if (found := values(runs, side, key))}
        told[side]["peak_mb"] = max(values(runs, side, "peak_mb").values(), default=None)
    return told


def read_json(path):
    return json.loads(Path(path).read_text())
