"""Scenarios B and C: the same batches into lakes of several sizes, and what a small run costs.

A lake is prepared once from its history, and kept: further runs go on with the next batches. One of more messages than
:data:`CHUNK` is the lake of so many, its history written down several times, see ``bench/multiply.py``.
"""

import os
import shutil
import sys
from pathlib import Path

from contenders import HERE, environment, figures, ratio, say
from generate import Spec, generate, write
from measure import found, in_turn, measured, require_same, spread, truth
from multiply import DIGITS, multiplied
from stream import Stream, backlog, deaths, write_batch

CHUNK = 6_000_000
OLD_QUEUES = ", old queues"
CLAIMS = 24_000
SMALL = Stream("t", 330)
"""About 100 events a batch: 33 exchanges that claim, 33 that settle, 33 that post."""
AFTER = 2
"""Batches of C after which a process is warm."""
SIDES = ("ours", "textbook")
OWN, OLD = "s", "q"
"""Prefixes of the queues that the batches of B are for: queues of their own, and the history's."""
KEPT_BATCHES = 120
"""Batches whose late messages lie in a history from the start."""


def stream_of(size, prefix=OWN):
    """A stream of scenario B; smaller where a lake is too small to be a test of it."""
    return Stream(prefix, CLAIMS if size >= 600_000 else max(100, size // 25), Spec.of(size).queues)


def streams_of(size):
    return stream_of(size), stream_of(size, OLD), SMALL


def base_of(given, size):
    return given.data / f"growth-{size}"


def prepare(given, size, sides=SIDES):
    """Make the lakes of one size, once."""
    base = base_of(given, size)
    ready, prefixes = base / "ready", "".join(stream.prefix for stream in streams_of(size))
    if ready.exists() and ready.read_text() == prefixes:
        return base
    shutil.rmtree(base, ignore_errors=True)
    (_take_in if size <= CHUNK else _multiply)(given, base, size, sides)
    ready.write_text(prefixes)
    return base


def _take_in(given, base, size, sides):
    """Write a history and its streams' backlogs, and let each side take them in."""
    say(f"preparing {size:,} messages")
    generate(base / "raw", Spec.of(size))
    for stream in streams_of(size):
        lines = backlog(stream, KEPT_BATCHES)
        write(base / "raw" / "landing" / "zaqar" / f"backlog-{stream.prefix}.jsonl", lines)
    for side in sides:
        landing = base / side / "landing" / "zaqar"
        shutil.copytree(base / "raw" / "landing" / "zaqar", landing, copy_function=os.link)
        told = measured(given.command(side, landing.parent, base / side / "lake"), environment())
        say(f"  {side}: {told['wall_seconds']} s, {told['peak_mb']} MB at most")
        for path in landing.iterdir():
            path.unlink()
    shutil.move(base / "raw" / "truth.csv", base / "truth.csv")
    shutil.rmtree(base / "raw")


def _multiply(given, base, size, sides):
    """The lakes of :data:`CHUNK` messages, as no batch has changed them, with their history several times."""
    times, rest = divmod(size, CHUNK)
    if rest or times > len(DIGITS):
        raise SystemExit(
            f"{size:,} messages: more than {CHUNK:,} must be a multiple of it, at most {len(DIGITS)} times"
        )
    first = prepare(given, CHUNK, sides)
    if used := [path.name for side in sides for path in (first / side).glob("done-*")]:
        raise SystemExit(
            f"{first}: batches came to it already ({', '.join(used)}), so nothing can be made of it. Remove the "
            "folder, and run B before C"
        )
    days = Spec.of(CHUNK).days
    for side in sides:
        say(f"preparing {size:,} messages for {side}: {times} times {CHUNK:,}")
        shutil.copytree(first / side, base / side, copy_function=_linked)
        _tell_moved(base / side / "lake", first.name, base.name)
        script, lake = str(HERE / "multiply.py"), str(base / side / "lake")
        options = ["--side", side, "--lake", lake, "--times", str(times), "--days", str(days)]
        measured([sys.executable, script, *options], environment())
    rows = [line.split(",") for line in (first / "truth.csv").read_text().splitlines()[1:]]
    lines = [",".join(row) + "\n" for row in multiplied(rows, times, days)]
    (base / "truth.csv").write_text("queue,message_id,died_at\n" + "".join(lines))


def _linked(source, target):
    """Link what is never written again, copy the rest."""
    (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)


def _tell_moved(lake, before, now):
    """Streams remember the files they read by their paths."""
    for log in lake.glob("*checkpoints/**/sources/*/[0-9]*"):
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
        log.write_text(log.read_text().replace(f"/{before}/", f"/{now}/"))


def go_on(given, base, side, stream, count):
    """Feed the next ``count`` batches in one process, check the dead letters, and tell the raw figures."""
    done = base / side / f"done-{stream.prefix}"
    first = int(done.read_text()) if done.exists() else 0
    batches = range(first, first + count)
    if batches[-1] >= KEPT_BATCHES:
        raise SystemExit(f"{base}: {KEPT_BATCHES} batches are used up; remove the folder and prepare it again")
    files = [write_batch(stream, batch, base / "batches") for batch in batches]
    lake, dead = base / side / "lake", given.data / "dead.csv"
    told = measured(given.command(side, base / side / "landing", lake, dead, files), environment())
    done.write_text(str(first + count))
    require_same(found(dead), expected(base, side), f"{base.name} {side}")
    told |= {"first_seconds": told["batches"][0]["seconds"], "seconds": spread(warm(told))["median"]}
    who = f"{base.name} {side}, queues {stream.prefix}"
    say(f"  {who}: first {told['first_seconds']} s, then {told['seconds']} s a batch")
    return told


def warm(told, after=1):
    """The seconds of a run's batches ``after`` the first ones; of the last one where it has no more."""
    return [batch["seconds"] for batch in told["batches"][after:] or told["batches"][-1:]]


def of_batches(runs, after=1):
    """The figures of each side, its seconds over all its warm batches."""
    told = figures(runs, ("first_seconds", "seconds"))
    for side, of_side in told.items():
        of_side["seconds"] = spread([s for run in runs if run["side"] == side for s in warm(run, after)])
    return told


def expected(base, side):
    """What must be dead by now: the history's dead letters, and those of the batches taken in."""
    rows = (base / "truth.csv").read_text()
    for stream in streams_of(int(base.name.split("-")[1])):
        done = base / side / f"done-{stream.prefix}"
        for batch in range(int(done.read_text()) if done.exists() else 0):
            rows += "".join(f"{','.join(row)}\n" for row in deaths(stream, batch))
    written = Path(base, "expected.csv")
    written.write_text(rows)
    return truth(written)


def growth(given):
    """B: the same batches into lakes of every size, ours and the textbook in turn."""
    bases = {size: prepare(given, size) for size in given.sizes}
    # a queue of a history that was multiplied holds a hundred times as many messages: a batch would derive the lake
    kinds = (("", OWN, given.sizes), (OLD_QUEUES, OLD, [size for size in given.sizes if size <= CHUNK]))
    sides = {
        f"{side} {size:,}{where}": (side, size, prefix)
        for where, prefix, sizes in kinds
        for size in sizes
        for side in SIDES
    }
    runs = []
    for repetition, label in in_turn(list(sides), given.repetitions):
        side, size, prefix = sides[label]
        told = go_on(given, bases[size], side, stream_of(size, prefix), given.batches)
        runs.append({"side": label, "repetition": repetition} | told)
    ratios = []
    for where, _, sizes in kinds:
        small, large = (f"{size:,}{where}" for size in (min(sizes, default=0), max(sizes, default=0)))
        if sizes:
            ratios.append(ratio(runs, f"textbook {large}", f"ours {large}", "seconds", 5, most=False))
        if small != large:
            ratios.append(ratio(runs, f"ours {large}", f"ours {small}", "seconds", 1.2))
            ratios.append(ratio(runs, f"textbook {large}", f"textbook {small}", "seconds"))
    told = {"what": "B. growth: the same batch into lakes of several sizes, warm process", "runs": runs}
    told["data"] = {"claims": stream_of(min(given.sizes)).claims, "messages": list(given.sizes)}
    told |= {"figures": of_batches(runs), "ratios": ratios}
    return told | ({"flat": flat(given, bases)} if given.flat else {})


def flat(given, bases):
    """Many batches in a row into one lake: whether it stays as fast."""
    size = sorted(given.sizes)[len(given.sizes) // 2]
    told = go_on(given, bases[size], "ours", stream_of(size), given.flat)
    seconds = [batch["seconds"] for batch in told["batches"]]
    tenth = max(1, len(seconds) // 5)
    early, late = spread(seconds[1 : 1 + tenth]), spread(seconds[-tenth:])
    return {"messages": size, "seconds": seconds, "early": early, "late": late}


def latency(given):
    """C: batches of about 100 events into a large lake, in a warm process, step by step."""
    size = max(size for size in given.sizes if size <= max(given.messages, min(given.sizes)))
    base = prepare(given, size)
    runs = []
    for repetition in range(given.repetitions):
        told = go_on(given, base, "ours", SMALL, given.batches + 3)
        later = told["batches"][AFTER:]
        steps = {step: spread([batch["steps"].get(step, 0) for batch in later]) for step in later[0]["steps"]}
        told |= {"seconds": spread(warm(told, AFTER))["median"], "steps": steps}
        runs.append({"side": "ours", "repetition": repetition} | told)
    of_sides = of_batches(runs, AFTER)
    seconds = of_sides["ours"]["seconds"]
    target = {"what": "seconds of a run", "figure": "seconds", "target": "at most 5"} | seconds
    return {
        "what": "C. latency: 100 events, bronze to gold, warm process",
        "data": {"messages": size, "events": len((base / "batches" / later[-1]["file"]).read_text().splitlines())},
        "runs": runs,
        "figures": of_sides,
        "ratios": [target | {"met": seconds["median"] <= 5}],
    }
