-- Where the broker's word and the rules differ.
SELECT
  system,
  concat_ws(
    ' ',
    system,
    concat(if(tenant = '/', '', tenant), '/', regexp_replace(queue, '^(non-)?persistent://[^/]+/[^/]+/', '')),
    nullif(subscription, '')
  ) AS place,
  kind,
  count(*) AS discrepancies,
  min(message_id) AS example
FROM gold.discrepancies
GROUP BY ALL
ORDER BY discrepancies DESC, place, kind
