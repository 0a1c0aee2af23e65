-- What the dead letters of each queue have in common.
SELECT
  d.system,
  concat_ws(' ', d.system, regexp_replace(d.queue, '^(non-)?persistent://[^/]+/[^/]+/', ''), nullif(d.subscription, '')) AS place,
  d.pattern_id,
  p.template,
  p.status,
  min(d.dead_lettered_at) AS since,
  max(d.dead_lettered_at) AS last,
  count(*) AS dead_letters
FROM gold.dead_letters d JOIN gold.poison_patterns p ON d.pattern_id = p.pattern_id
GROUP BY ALL
ORDER BY dead_letters DESC, place, d.pattern_id
LIMIT 200
