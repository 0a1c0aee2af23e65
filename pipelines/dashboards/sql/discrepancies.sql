-- Where the broker's word and the rules differ.
SELECT
  system,
  {place} AS place,
  kind,
  count(*) AS discrepancies,
  min(message_id) AS example
FROM gold.discrepancies
GROUP BY ALL
ORDER BY discrepancies DESC, place, kind
