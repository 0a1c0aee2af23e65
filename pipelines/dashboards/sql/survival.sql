-- The share of messages not settled after k deliveries (Kaplan and Meier; deaths and unknown outcomes are censored).
WITH counted AS (
  SELECT
    system,
    {place} AS place,
    delivery,
    sum(reached) AS reached,
    sum(settled) AS settled
  FROM gold.delivery_survival
  GROUP BY ALL
)
SELECT
  system,
  place,
  delivery,
  reached,
  CASE
    WHEN min(reached - settled) OVER so_far = 0 THEN 0
    ELSE exp(sum(CASE WHEN settled < reached THEN ln(1 - settled / reached) END) OVER so_far)
  END AS unsettled
FROM counted
WINDOW so_far AS (PARTITION BY system, place ORDER BY delivery)
