"""What notebooks need to run unchanged on Databricks and on a laptop.

``widgets`` ask the reader and open the lake, ``views`` are looks at it; ``cells`` runs a notebook here, ``page`` makes
a page of what it showed.
"""

from deadletter.notebook.widgets import number_widget, open_lake, widget

__all__ = ["number_widget", "open_lake", "widget"]
