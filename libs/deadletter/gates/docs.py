"""Great Expectations' Data Docs for every run, made from the outcomes: GX renders them and judges nothing again."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterable
from datetime import datetime
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from deadletter.gates.catalogue import ROW, TYPES
from deadletter.gates.outcomes import Outcome

KEPT = 20
"""Runs that stay readable; the numbers of all runs stay in ``gold.quality_metrics``."""
SITE = "data_docs"


def load_gx() -> None:
    """Import what :func:`write_docs` needs: it takes seconds in which Spark can work."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")  # nothing leaves the machine
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    import great_expectations.data_context  # noqa: F401


def write_docs(
    outcomes: Iterable[Outcome], folder: str | Path, run_id: str, judged_at: datetime, keep: int = KEPT
) -> Path:
    """Add a run to the Data Docs under ``<folder>/quality`` and return their index page.

    One page a suite; only the newest ``keep`` runs stay, so that a thousandth run takes as long as a twentieth.
    ``judged_at`` is UTC.
    """
    load_gx()
    from great_expectations.core.run_identifier import RunIdentifier

    root = Path(folder).absolute() / "quality"
    context = _context(root)
    store = context.validation_results_store
    run = RunIdentifier(run_name=run_id, run_time=judged_at)
    keys = []
    ordered = sorted(outcomes, key=lambda outcome: outcome.table)
    for table, judged in groupby(ordered, key=lambda outcome: outcome.table):
        keys.append(_key(table, run))
        store.set(keys[-1], _result(table, list(judged), run))
    _forget(store, keep)
    context.build_data_docs(site_names=[SITE], resource_identifiers=keys)
    _prune(root)
    return root / SITE / "index.html"


def _context(root: Path) -> Any:
    """A context that keeps nothing but results and the site, both under ``root``."""
    from great_expectations.data_context import EphemeralDataContext
    from great_expectations.data_context.types.base import DataContextConfig, FilesystemStoreBackendDefaults

    root.mkdir(parents=True, exist_ok=True)
    directory = str(root).replace("$", r"\$")  # else GX takes it for a variable of the environment
    defaults = FilesystemStoreBackendDefaults(root_directory=directory)
    defaults.data_docs_sites = {
        SITE: {
            "class_name": "SiteBuilder",
            "show_how_to_buttons": False,
            "store_backend": {
                "class_name": "TupleFilesystemStoreBackend",
                "base_directory": f"{directory}/{SITE}",
            },
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
        }
    }
    config = DataContextConfig(store_backend_defaults=defaults, analytics_enabled=False)
    return EphemeralDataContext(project_config=config)


def _key(table: str, run: Any) -> Any:
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    return ValidationResultIdentifier(ExpectationSuiteIdentifier(table), run, table)


def _result(table: str, outcomes: list[Outcome], run: Any) -> Any:
    """The outcomes of a table as GX's own result of a suite."""
    from great_expectations.core import ExpectationSuiteValidationResult

    good = sum(outcome.passed for outcome in outcomes)
    statistics = {
        "evaluated_expectations": len(outcomes),
        "successful_expectations": good,
        "unsuccessful_expectations": len(outcomes) - good,
        "success_percent": 100 * good / len(outcomes),
    }
    return ExpectationSuiteValidationResult(
        success=good == len(outcomes),
        results=[_one(outcome) for outcome in outcomes],
        suite_name=table,
        statistics=statistics,
        meta={"run_id": run.to_json_dict(), "active_batch_definition": {"data_asset_name": table}},
    )


def _one(outcome: Outcome) -> Any:
    from great_expectations.core import ExpectationValidationResult
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
    from great_expectations.expectations.metadata_types import FailureSeverity

    rule = outcome.rule
    told = f"{rule.name}: {rule.why}. Expected: {rule.expected}. What to do: {rule.what_to_do}"
    told += f" See: {outcome.command}" if outcome.is_kept else ""
    written = ExpectationConfiguration(
        type=rule.type,
        kwargs=dict(rule.kwargs),
        id=rule.id,
        severity=FailureSeverity(rule.severity),
        # GX's own words where the rule held; "$" before a word would be taken for a parameter
        description=None if outcome.passed else re.sub(r"\$(?=[A-Za-z_{])", "&#36;", told),
    )
    return ExpectationValidationResult(success=outcome.passed, expectation_config=written, result=_figures(outcome))


def _figures(outcome: Outcome) -> dict[str, Any]:
    """GX shows texts as they are: what somebody sent to a queue would be a part of the page."""
    if TYPES[outcome.rule.type].level != ROW:
        return {"observed_value": escape(outcome.observed)}
    return {
        "element_count": outcome.rows,
        "unexpected_count": outcome.failing,
        "unexpected_percent": 100 * outcome.failing / outcome.rows if outcome.rows else 0.0,
        "partial_unexpected_list": [escape(outcome.example)] if outcome.example else [],
    }


def _forget(store: Any, keep: int) -> None:
    """Remove the results of all but the newest runs; the site's index drops their pages."""
    keys = store.list_keys()
    runs = sorted({(key.run_id.run_time, key.run_id.run_name) for key in keys}, reverse=True)
    kept = set(runs[:keep])
    for key in keys:
        if (key.run_id.run_time, key.run_id.run_name) not in kept:
            store.remove_key(key)


def _prune(root: Path) -> None:
    """Remove folders that removed pages left empty: listing them would cost more with every run."""
    for folder in sorted((path for path in root.rglob("*") if path.is_dir()), reverse=True):
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
