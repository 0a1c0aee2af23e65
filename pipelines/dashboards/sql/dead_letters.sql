-- Dead letters counted by queue, reason, pattern and time; the bars' width suits the span of all deaths.
WITH span AS (
  SELECT unix_seconds(max(dead_lettered_at)) - unix_seconds(min(dead_lettered_at)) AS seconds FROM gold.dead_letters
)
SELECT
  system,
  concat_ws(' ', system, regexp_replace(queue, '^(non-)?persistent://[^/]+/[^/]+/', ''), nullif(subscription, '')) AS place,
  reason,
  cause,
  pattern_id,
  CASE
    WHEN seconds <= 3 * 3600 THEN date_trunc('minute', dead_lettered_at)
    WHEN seconds <= 5 * 86400 THEN date_trunc('hour', dead_lettered_at)
    ELSE date_trunc('day', dead_lettered_at)
  END AS time,
  count(*) AS dead_letters
FROM gold.dead_letters CROSS JOIN span
GROUP BY ALL
