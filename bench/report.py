"""What was measured, as tables and a plot: python bench/report.py [docs/performance.json]

Writes the tables between the marks of docs/performance.md, and docs/images/performance.svg.
"""

import argparse
import json
from pathlib import Path

BLUE, GREY = "#2563eb", "#9ca3af"
OWN = ("ours", "gates", "add-column", "1 worker", "2 workers")


def read(path):
    path = Path(path)
    return json.loads(path.read_text()) if path.exists() else {}


def keep(path, letter, told):
    """Put a scenario's figures into the file, in the place of older ones."""
    figures = read(path) | {letter: told}
    Path(path).write_text(json.dumps(dict(sorted(figures.items())), indent=1) + "\n")


def shown(value):
    if isinstance(value, dict):
        return f"{shown(value['median'])} ({shown(value['low'])} to {shown(value['high'])})"
    if isinstance(value, float):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def row(*cells):
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def targets(figures):
    """Every ratio and target of all scenarios."""
    yield row("scenario", "figure", "measured: median (lowest to highest)", "target", "met", "on")
    yield row(*["---"] * 6)
    for letter, told in figures.items():
        for ratio in told.get("ratios", []):
            met = {True: "yes", False: "**no**", None: ""}[ratio.get("met")]
            what = f"{ratio['what']}, {ratio['figure'].replace('_', ' ')}"
            yield row(letter, what, shown(ratio), ratio.get("target", ""), met, ratio.get("when", told["when"]))


def sides(told):
    """A scenario's figures side by side. It may keep a side that was measured on another day."""
    keys = list(dict.fromkeys(key for figures in told["figures"].values() for key in figures))
    when = {run["side"]: run.get("when", told["when"]) for run in told["runs"]}
    yield row("side", *[key.replace("_", " ") for key in keys], "on")
    yield row(*["---"] * (len(keys) + 2))
    for side, figures in told["figures"].items():
        yield row(side, *[shown(figures.get(key, "")) for key in keys], when[side])


def steps(told):
    """The seconds of each step, where runs tell them: the median run of each side."""
    runs = {}
    for run in told["runs"]:
        if run.get("steps"):
            runs.setdefault(run["side"], []).append(run)
    for side, of_side in runs.items():
        run = sorted(of_side, key=lambda run: run["seconds"])[len(of_side) // 2]
        parts = [f"{step} {shown(seconds)}" for step, seconds in run["steps"].items()]
        yield f"Steps of {side}, s: {', '.join(parts)}."


def machines(figures):
    """What the scenarios ran on: figures of one machine are no measure for another's."""
    letters = {}
    for letter, told in figures.items():
        machine = told["machine"]
        ran_on = f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}"
        versions = ", ".join(f"{key} {value}" for key, value in told["versions"].items())
        letters.setdefault(f"{ran_on}. {versions}", []).append(letter)
    for machine, of in letters.items():
        whose = f" of {', '.join(of)}" if len(letters) > 1 else ""
        yield f"Machine{whose}: {machine}.\n"


def scenario(letter, told):
    yield f"\n### {told['what']}\n"
    data = ", ".join(f"{key.replace('_', ' ')} {shown(value)}" for key, value in told["data"].items())
    repetitions = 1 + max(run["repetition"] for run in told["runs"])
    yield f"Data: {data}. {repetitions} repetition{'s, sides in turn' if repetitions > 1 else ''}.\n"
    yield from sides(told)
    for line in steps(told):
        yield f"\n{line}"
    if "flat" in told:
        flat = told["flat"]
        yield (
            f"\n{len(flat['seconds'])} batches in a row into {flat['messages']:,} messages: {shown(flat['early'])} s "
            f"at first, {shown(flat['late'])} s at the end."
        )


def tables(figures):
    """All figures as markdown: the ``targets``, and the ``figures`` of each scenario."""
    if not figures:
        return dict.fromkeys(("targets", "figures"), "Not measured yet.")
    scenarios = [line for letter, told in figures.items() for line in scenario(letter, told)]
    return {"targets": "\n".join(targets(figures)), "figures": "\n".join([*machines(figures), *scenarios])}


def plot(figures, path):
    """Seconds of every side of every scenario, median with the spread, one panel a scenario."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    drawn = [told for told in figures.values() if "figures" in told]
    heights = [len(told["figures"]) for told in drawn]
    size = (9, 0.4 * sum(heights) + len(drawn))
    _, panels = pyplot.subplots(len(drawn), figsize=size, squeeze=False, height_ratios=heights)
    for panel, told in zip(panels[:, 0], drawn, strict=True):
        bars = {side: found["seconds"] for side, found in told["figures"].items() if "seconds" in found}
        medians = [bar["median"] for bar in bars.values()]
        reach = [
            [bar["median"] - bar["low"] for bar in bars.values()],
            [bar["high"] - bar["median"] for bar in bars.values()],
        ]
        panel.barh(list(bars), medians, xerr=reach, color=[BLUE if side.startswith(OWN) else GREY for side in bars])
        panel.invert_yaxis()
        panel.set_title(f"{told['what']} (s)", loc="left", fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    pyplot.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    pyplot.savefig(path, metadata={"Date": None})


def publish(source, docs):
    """Put the tables into docs/performance.md and the plot beside it."""
    page, figures = docs / "performance.md", read(source)
    text = page.read_text()
    for name, lines in tables(figures).items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{lines}\n\n{end}{tail}"
    page.write_text(text)
    if figures:
        plot(figures, docs / "images" / "performance.svg")


if __name__ == "__main__":
    docs = Path(__file__).parent.parent / "docs"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="?", default=str(docs / "performance.json"), type=argparse.FileType())
    publish(parser.parse_args().figures.name, docs)
