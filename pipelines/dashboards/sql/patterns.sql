-- What the dead letters of each queue have in common: its 200 largest patterns, without those that people muted.
SELECT * EXCEPT (place_rank)
FROM (
  SELECT
    d.system,
    {place} AS place,
    d.pattern_id,
    p.template,
    p.status,
    min(d.dead_lettered_at) AS since,
    max(d.dead_lettered_at) AS last,
    count(*) AS dead_letters,
    row_number() OVER (
      PARTITION BY d.system, d.tenant, d.queue, d.subscription ORDER BY count(*) DESC, d.pattern_id
    ) AS place_rank
  FROM gold.dead_letters d JOIN gold.poison_patterns p ON d.pattern_id = p.pattern_id
  WHERE NOT p.muted
  GROUP BY d.system, d.tenant, d.queue, d.subscription, d.pattern_id, p.template, p.status
)
WHERE place_rank <= 200
ORDER BY dead_letters DESC, place, pattern_id
