-- Events that could not be used, by the rule they broke.
SELECT
  system,
  reason,
  count(*) AS events
FROM silver.quarantine LATERAL VIEW explode(reasons) AS reason
GROUP BY ALL
