"""Scenarios D, E and G: the upgrade of records, a new limit, and the grouping of texts."""

import json
import sys

from contenders import HERE, empty, environment, figures, ratio, say, values
from grouping import accuracy
from measure import in_turn, measured, spread
from texts import generate, multiply

GROUPERS = {"ours": "ours", "Drain3": "drain3", "Drain3 with masks": "masked"}


def upgrade(given):
    """D: version-1 records become readable as version 2."""
    runs = []
    for repetition, way in in_turn(["add-column", "rewrite"], given.repetitions):
        work = empty(given.data / "work")
        command = [sys.executable, str(HERE / "upgrade.py"), way, str(work), str(given.records)]
        told = measured(command, environment())
        say(f"  {way}: {told['seconds']} s, {told['files_written']} of {told['files']} data files written")
        runs.append({"side": way, "repetition": repetition} | told)
    seconds = spread(list(values(runs, "add-column", "seconds").values()))
    written = max(values(runs, "add-column", "files_written").values())
    target = {"what": "seconds of add-column, no data file written", "figure": "seconds", "target": "at most 2"}
    return {
        "what": "D. upgrade: version-1 records readable as version 2 (a comparison of designs)",
        "data": {"records": given.records, "queues": 1000},
        "runs": runs,
        "figures": figures(runs, ("seconds",)),
        "ratios": [
            target | seconds | {"met": seconds["median"] <= 2 and written == 0},
            ratio(runs, "rewrite", "add-column", "seconds"),
        ],
    }


def new_limit(given):
    """E: a policy limits 1,000 classic queues, and what lies in them is judged."""
    runs = []
    for repetition in range(given.repetitions):
        command = [sys.executable, str(HERE / "new_limit.py"), str(empty(given.data / "work")), str(given.records)]
        told = measured(command, environment())
        say(f"  {told['dead_letters']:,} newly dead in {told['seconds']} s")
        runs.append({"side": "ours", "repetition": repetition} | told)
    seconds = spread(list(values(runs, "ours", "seconds").values()))
    target = {"what": "seconds of a new limit", "figure": "seconds", "target": "at most 14"}
    return {
        "what": "E. a new limit for 1,000 RabbitMQ queues, judged against the messages in them",
        "data": {"messages": given.records, "queues": 1000},
        "runs": runs,
        "figures": figures(runs, ("seconds",)),
        "ratios": [target | seconds | {"met": seconds["median"] <= 14}],
    }


def grouping(given):
    """G: texts grouped, in messages a second, and how right the groups are."""
    path = given.data / f"{'lines' if given.lines else 'texts'}-{given.texts}.jsonl"
    if not path.exists() and given.lines:
        multiply(given.texts, given.lines, path)
    elif not path.exists():
        generate(given.texts, path)
    true = [json.loads(line)["label"] for line in path.read_text().splitlines()]
    runs = []
    for repetition, side in in_turn([side for side in GROUPERS if given.can_run(side)], given.repetitions):
        out = empty(given.data / "work") / "groups.txt"
        told = measured(
            [given.python(side), str(HERE / "texts.py"), GROUPERS[side], str(path), str(out)], environment()
        )
        ga, fga = accuracy(out.read_text().splitlines(), true)
        told |= {"texts_a_second": round(given.texts / told["seconds"]), "ga": round(ga, 4), "fga": round(fga, 4)}
        say(f"  {side}: {told['texts_a_second']:,} texts a second, GA {ga:.4f}, FGA {fga:.4f}")
        runs.append({"side": side, "repetition": repetition} | told)
    return {
        "what": "G. grouping: texts a second",
        "data": {
            "texts": given.texts,
            "events": len(set(true)),
            "from": "labelled lines" if given.lines else "bench/texts.py",
        },
        "runs": runs,
        "figures": figures(runs, ("seconds", "texts_a_second", "ga", "fga")),
        "ratios": [
            ratio(runs, "ours", side, key, target, most=False)
            for side in GROUPERS
            if side != "ours" and given.can_run(side)
            for key, target in (("texts_a_second", 5), ("ga", 1), ("fga", 1))
        ],
    }
