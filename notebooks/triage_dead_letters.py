# Databricks notebook source
# MAGIC %md
# MAGIC # Triage dead letters
# MAGIC What died, why, since when, which pattern, and examples to look at.
# MAGIC
# MAGIC **lake**: a folder, or `catalog:NAME`. **queue**: one queue, empty for all.
# MAGIC **since**: an ISO 8601 time such as `2026-11-20T21:00:00Z`, empty for all.

# COMMAND ----------

from deadletter.notebook import open_lake, views, widget
from deadletter.pages import charts

root, queue, since = widget("lake", "", "Lake"), widget("queue", "", "Queue"), widget("since", "", "Since")
lake = open_lake(root)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What died, and since when
# MAGIC The reason is in the broker's own terms, the cause in the same terms for all brokers. Evidence *observed*: the
# MAGIC broker's own events show the death; *derived*: it reports no such death, so it is worked out from its rules and
# MAGIC its events.

# COMMAND ----------

dead = views.dead_letters(lake, queue, since)
display(views.what_died(dead))

# COMMAND ----------

display(charts.over_time(views.rows(views.deaths_over_time(dead)), "time"))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which pattern
# MAGIC Dead letters grouped by the error their consumer gave, or by how their payload differs from healthy
# MAGIC messages. Take a `pattern_id` to the notebook *explore_pattern*.

# COMMAND ----------

display(views.patterns_of(lake, dead))

# COMMAND ----------

# MAGIC %md
# MAGIC Not listed, but counted everywhere else, are the patterns that people muted:

# COMMAND ----------

display(views.muted_of(lake, dead))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Show me examples
# MAGIC The latest deaths; private values are masked.

# COMMAND ----------

display(views.examples(lake, dead))

# COMMAND ----------

# MAGIC %md
# MAGIC ## What can still be rescued
# MAGIC What lies in the dead letter queues, and when the broker drops the first of it. Of
# MAGIC RabbitMQ and Pulsar all that went there counts unless an acknowledgement there was captured.

# COMMAND ----------

display(views.still_held(lake, dead))
