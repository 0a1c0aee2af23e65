-- What happened in each queue.
SELECT
  system,
  {place} AS place,
  sum(posted) AS posted,
  sum(settled) AS settled,
  sum(dead_lettered) AS dead_lettered
FROM gold.queue_health
GROUP BY ALL
