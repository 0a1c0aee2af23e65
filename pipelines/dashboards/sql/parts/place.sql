concat_ws(
  ' ',
  system,
  concat(if(tenant = '/', '', tenant), '/', regexp_replace(queue, '^(non-)?persistent://[^/]+/[^/]+/', '')),
  nullif(subscription, '')
)
