"""Plain Great Expectations on a lake: a checkpoint a table with the suites of expectations/, one GX run.

    python bench/gx_checkpoints.py LAKE

What a team would write that takes GX as its documentation shows it; the gates judge the same rules in the pipeline.
"""

import json
import sys
import time
from pathlib import Path

import great_expectations as gx

from deadletter import tables
from deadletter.lake import Lake
from deadletter.spark.session import get_spark

EXPECTATIONS = Path(__file__).parent.parent / "expectations"
PARAMETERS = {"as_of": "2999-01-01T00:00:00"}


def suites(lake):
    """The suites whose tables are in the lake and hold what a run wrote."""
    for path in sorted(EXPECTATIONS.glob("*.json")):
        table = tables.find(path.stem)
        if table is not None and lake.exists(table):
            yield table, json.loads(path.read_text())


def check(context, source, table, document, frame):
    """Validate one table; how many rules, how many failed."""
    asset = source.add_dataframe_asset(name=table.full_name)
    batches = asset.add_batch_definition_whole_dataframe(table.full_name)
    named = [
        {"type": rule["type"], "kwargs": rule["kwargs"], "id": rule["id"], "meta": rule["meta"]}
        for rule in document["expectations"]
    ]
    suite = context.suites.add(gx.ExpectationSuite(name=table.full_name, expectations=named))
    definition = context.validation_definitions.add(
        gx.ValidationDefinition(name=table.full_name, data=batches, suite=suite)
    )
    checkpoint = context.checkpoints.add(gx.Checkpoint(name=table.full_name, validation_definitions=[definition]))
    result = checkpoint.run(batch_parameters={"dataframe": frame}, expectation_parameters=PARAMETERS)
    failed = [found for run in result.run_results.values() for found in run.results if not found.success]
    return len(named), failed


def main():
    lake = Lake(get_spark(), sys.argv[1])
    for table in tables.ALL_TABLES:  # what the suites' queries call them
        if lake.exists(table):
            lake.read(table).createOrReplaceTempView(table.full_name.replace(".", "_"))
    began = time.perf_counter()
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_spark(name="lake", persist=False)
    rules, failed = 0, []
    for table, document in suites(lake):
        counted, broken = check(context, source, table, document, lake.read(table))
        rules += counted
        failed += [f"{table.full_name}: {found.expectation_config.type}" for found in broken]
    seconds = round(time.perf_counter() - began, 3)
    print(json.dumps({"seconds": seconds, "rules": rules, "failed": failed}))


if __name__ == "__main__":
    main()
