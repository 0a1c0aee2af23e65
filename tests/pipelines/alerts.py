"""The alerts that the bundle deploys, asked of a lake here."""

from pathlib import Path

import yaml

ALERTS = yaml.safe_load((Path(__file__).parents[2] / "pipelines" / "alerts.yml").read_text())["resources"]["alerts"]


def query_of(name):
    """An alert's query, of a lake's own tables."""
    return ALERTS[name]["query_text"].replace("${var.catalog}.", "")
