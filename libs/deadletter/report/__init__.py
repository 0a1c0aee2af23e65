"""The report: one HTML page that opens offline."""
