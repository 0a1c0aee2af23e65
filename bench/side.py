"""What every contender has in common: how it is started, timed and asked for its dead letters.

A contender is a script of its own, one process a run, so that none sees another's memory or caches:

    python bench/NAME.py --landing DIR --work DIR --dead OUT.csv [--sums] [--feed FILE...]

It gives four functions: ``start()`` makes a session, ``bring_up(session, landing, work)`` takes in what is new and
derives the dead letters (it may return seconds by step), ``dead_letters(session, work, out)`` writes them as
``queue,message_id,died_us``, ``sums(session, work)`` counts the messages, grants and settlements in its tables.
With ``--feed`` the landing folder gets these files one by one, and each is timed. The last line on standard output
is a JSON object.
"""

import argparse
import json
import shutil
import time
from pathlib import Path


def timed(work, *given):
    """Seconds of a call, and what it returned."""
    began = time.perf_counter()
    result = work(*given)
    return round(time.perf_counter() - began, 3), result


def feed(session, bring_up, files, landing, work):
    """Time each file from its arrival in the landing folder."""
    for path in files:
        hidden = landing / "zaqar" / f".{path.name}"
        shutil.copy(path, hidden)
        hidden.rename(landing / "zaqar" / path.name)
        seconds, steps = timed(bring_up, session, str(landing), str(work))
        yield {"file": path.name, "seconds": seconds, "steps": steps}


def main(start, bring_up, dead_letters, sums):
    parser = argparse.ArgumentParser()
    parser.add_argument("--landing", required=True, type=Path)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--dead", type=Path, help="where to write the dead letters; nothing is written without it")
    parser.add_argument("--sums", action="store_true", help="tell what is in the tables")
    parser.add_argument("--feed", type=Path, nargs="*", help="files to take in one by one after the first run")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    started, session = timed(start)
    told = {"start_seconds": started}
    if given.feed is None:
        told["seconds"], told["steps"] = timed(bring_up, session, str(given.landing), str(given.work))
    else:
        told["batches"] = list(feed(session, bring_up, given.feed, given.landing, given.work))
    if given.dead:
        dead_letters(session, str(given.work), str(given.dead))
    if given.sums:
        told["sums"] = sums(session, str(given.work))
    print(json.dumps(told))
