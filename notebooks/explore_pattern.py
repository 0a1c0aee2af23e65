# Databricks notebook source
# MAGIC %md
# MAGIC # Explore a pattern
# MAGIC Its members, their timeline and queues, and how their payloads differ from those of healthy messages.
# MAGIC
# MAGIC **lake**: a folder, or `catalog:NAME`. **pattern**: a `pattern_id` or its first letters, a former one too; empty
# MAGIC for the largest that is not muted.

# COMMAND ----------

from deadletter.notebook import open_lake, views, widget
from deadletter.pages import charts

root, pattern = widget("lake", "", "Lake"), widget("pattern", "", "Pattern")
lake = open_lake(root)

# COMMAND ----------

# MAGIC %md
# MAGIC ## The pattern

# COMMAND ----------

chosen = views.pattern(lake, pattern)
display(chosen)

# COMMAND ----------

members = views.members(lake, chosen.first()["pattern_id"])
display(views.examples(lake, members, 20))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Timeline and queues

# COMMAND ----------

display(charts.over_time(views.rows(views.deaths_over_time(members)), "time"))

# COMMAND ----------

display(views.what_died(members))

# COMMAND ----------

# MAGIC %md
# MAGIC ## How the payloads differ from healthy messages
# MAGIC A payload that *looks healthy* failed for a reason outside of it.

# COMMAND ----------

display(views.differences(members))
