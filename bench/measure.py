"""Runs a command and tells its wall time and the peak memory of its process tree; tells the machine apart."""

import csv
import json
import os
import platform
import statistics
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
OURS = ("deadletter", "pyspark", "delta-spark", "great-expectations")
PEERS = ("duckdb", "polars", "deltalake", "drain3")
INTERVAL = 0.2


def tree(root):
    """Resident bytes of a process and of each one below it, by id."""
    children, resident = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        resident[pid] = int(fields[21]) * PAGE
    found, waiting = {}, [root]
    while waiting:
        pid = waiting.pop()
        found[pid] = resident.get(pid, 0)
        waiting += children.get(pid, [])
    return found


def peak_bytes(root, done):
    """The most that the tree below ``root`` holds until ``done``; pages that processes share count in each.

    A process counts from its second sample on: one that is just being started shows its parent's memory as its own.
    """
    peak, before = 0, {}
    while not done.wait(INTERVAL):
        now = tree(root)
        peak = max(peak, sum(size for pid, size in now.items() if pid in before))
        before = now
    return peak


def measured(command, env=None):
    """Run ``command``: ``wall_seconds``, ``peak_mb``, and the JSON object on its last line.

    Ends with the end of what it printed where it failed.
    """
    with tempfile.TemporaryFile("w+") as told:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, env=os.environ | (env or {}), stdout=subprocess.PIPE, stderr=told, text=True
        )
        done = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            peak = pool.submit(peak_bytes, process.pid, done)
            try:
                output, _ = process.communicate()
                wall = time.perf_counter() - began
            finally:
                done.set()
        if process.returncode:
            told.seek(0)
            raise SystemExit(f"{' '.join(map(str, command))} failed:\n{output[-2000:]}{told.read()[-4000:]}")
    result = json.loads(output.strip().splitlines()[-1])
    return result | {"wall_seconds": round(wall, 2), "peak_mb": round(peak.result() / 1e6)}


def machine():
    """What the figures were measured on."""
    cpu = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PHYS_PAGES") * PAGE
    return {
        "cpu": cpu[0] if cpu else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
    }


def versions(peers):
    """Versions of what ran; those of the peers as their own interpreter tells them."""
    told = {"python": platform.python_version()}
    for package in OURS:
        try:
            told[package] = version(package)
        except PackageNotFoundError:
            continue
    if peers:
        asked = f"import json, importlib.metadata as m; print(json.dumps({{p: m.version(p) for p in {PEERS!r}}}))"
        told |= json.loads(subprocess.run([peers, "-c", asked], capture_output=True, text=True, check=True).stdout)
    return told


def spread(values):
    """Median, lowest and highest."""
    return {"median": round(statistics.median(values), 3), "low": round(min(values), 3), "high": round(max(values), 3)}


def in_turn(sides, repetitions):
    """Names of sides in the order to run them: each repetition has all, every second one backwards."""
    for repetition in range(repetitions):
        for side in sides if repetition % 2 == 0 else sides[::-1]:
            yield repetition, side


def truth(path):
    """The dead letters of a truth file, as :func:`found` gives a contender's."""
    with Path(path).open(newline="") as rows:
        return {
            (row["queue"], row["message_id"], round(datetime.fromisoformat(row["died_at"]).timestamp() * 1e6))
            for row in csv.DictReader(rows)
        }


def found(path):
    """The dead letters a contender wrote; the same one twice is a mistake."""
    with Path(path).open(newline="") as rows:
        listed = [(row["queue"], row["message_id"], int(row["died_us"])) for row in csv.DictReader(rows)]
    if len(set(listed)) != len(listed):
        raise SystemExit(f"{path}: the same dead letter twice")
    return set(listed)


def require_same(told, expected, who):
    """End where a contender's dead letters are not those of the generator."""
    if told != expected:
        raise SystemExit(
            f"{who}: {len(told):,} dead letters, {len(expected - told):,} missing and {len(told - expected):,} "
            f"that should not be there, e.g. {next(iter(told ^ expected))}"
        )
