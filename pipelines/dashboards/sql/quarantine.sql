-- Events that could not be used, each once; without those that somebody discarded.
SELECT
  system,
  count(*) AS events
FROM silver.quarantine
LEFT ANTI JOIN (
  SELECT event_id FROM control.quarantine_decisions
  GROUP BY event_id HAVING max_by(decision, struct(decided_at, decision)) = 'discarded'
) AS known USING (event_id)
GROUP BY ALL
