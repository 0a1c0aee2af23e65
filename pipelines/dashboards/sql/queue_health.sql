-- What happened in each queue, hour by hour.
SELECT
  system,
  {place} AS place,
  hour,
  sum(posted) AS posted,
  sum(claimed) AS claimed,
  sum(settled) AS settled,
  sum(dead_lettered) AS dead_lettered,
  sum(expired_unseen) AS expired_unseen
FROM gold.queue_health
GROUP BY ALL
