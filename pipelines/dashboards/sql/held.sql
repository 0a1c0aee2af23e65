-- What still lies in the dead letter queues at the time of the last run, and when the broker drops the first of it.
-- Of RabbitMQ and Pulsar all that went there counts unless an acknowledgement there was captured.
SELECT
  system,
  {place} AS place,
  dead_letter_queue,
  min(dead_lettered_at) AS oldest,
  min(expires_at) AS first_expires,
  count(*) AS dead_letters
FROM gold.dead_letters AS dead
WHERE dead_letter_queue IS NOT NULL AND removed_at IS NULL
  -- a Zaqar message that died in its dead letter queue later was moved on
  AND NOT EXISTS (
    SELECT 1 FROM gold.dead_letters AS onward
    WHERE dead.system = 'zaqar' AND onward.system = dead.system AND onward.tenant = dead.tenant
      AND onward.queue = dead.dead_letter_queue AND onward.message_id = dead.message_id
      AND onward.dead_lettered_at > dead.dead_lettered_at)
  AND NOT coalesce(
    expires_at <= (SELECT max_by(as_of, finished_at) FROM control.progress WHERE step = 'gold'), false)
GROUP BY ALL
ORDER BY dead_letters DESC, place
