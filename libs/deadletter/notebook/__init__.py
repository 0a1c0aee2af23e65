"""What notebooks need to run unchanged on Databricks and on a laptop: widgets, a lake, looks at it, a way to run."""

from deadletter.notebook.widgets import number_widget, open_lake, widget

__all__ = ["number_widget", "open_lake", "widget"]
