"""The Databricks dashboard drawn on this machine: its data sets run on Spark, its widgets become charts."""
