# Databricks notebook source
# MAGIC %md
# MAGIC # Plan a delivery limit
# MAGIC How messages fare from delivery to delivery, and what another limit would have done.
# MAGIC
# MAGIC **lake**: a folder, or `catalog:NAME`. **queue**: one queue, empty for all. **limit**: deliveries to allow.
# MAGIC
# MAGIC Here `limit` is the total number of deliveries. For RabbitMQ `delivery-limit` 3 or Pulsar `maxRedeliverCount` 3,
# MAGIC enter 4; for Zaqar `_max_claim_count` 3, enter 3.

# COMMAND ----------

from deadletter.notebook import number_widget, open_lake, views, widget
from deadletter.pages import charts
from deadletter.report.queries import first_deliveries

root, queue, limit = widget("lake", "", "Lake"), widget("queue", "", "Queue"), number_widget("limit", "2", "Limit")
lake = open_lake(root)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Survival
# MAGIC The share of messages that are not settled after so many deliveries. Where the curve is flat, further
# MAGIC deliveries do not help. RabbitMQ tells no acknowledgement: unless consumers write theirs down, its curves
# MAGIC stay at 100 %.

# COMMAND ----------

curve = views.survival(lake, queue)
display(charts.survival(views.rows(first_deliveries(curve))))

# COMMAND ----------

display(curve)

# COMMAND ----------

# MAGIC %md
# MAGIC ## What the limit would have done
# MAGIC Of the messages seen: how many it would have stopped, how many of those a later delivery settled (it would
# MAGIC have killed them for nothing), and how many deliveries it would have saved.

# COMMAND ----------

display(views.limit_preview(curve, limit))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Every limit at a glance

# COMMAND ----------

display(charts.limits(views.rows(views.previews(curve, 10))))
