-- Dead letters counted by queue, reason, pattern and time; the bars' width suits the span of all deaths.
WITH span AS (
  SELECT unix_seconds(max(dead_lettered_at)) - unix_seconds(min(dead_lettered_at)) AS seconds FROM gold.dead_letters
)
SELECT
  d.system,
  {place} AS place,
  concat(d.reason, ' (', d.evidence, ')') AS reason,
  d.cause,
  d.pattern_id,
  p.muted,
  CASE WHEN p.muted THEN d.pattern_id END AS muted_pattern_id,
  CASE
    WHEN seconds <= 3 * 3600 THEN date_trunc('minute', d.dead_lettered_at)
    WHEN seconds <= 5 * 86400 THEN date_trunc('hour', d.dead_lettered_at)
    ELSE date_trunc('day', d.dead_lettered_at)
  END AS time,
  count(*) AS dead_letters
FROM gold.dead_letters d LEFT JOIN gold.poison_patterns p ON d.pattern_id = p.pattern_id CROSS JOIN span
GROUP BY ALL
