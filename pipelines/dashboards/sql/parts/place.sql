concat_ws(
  ' ',
  system,
  concat(
    if(tenant = '/', '', tenant),
    '/',
    replace(regexp_replace(queue, '^(non-)?persistent://[^/]+/[^/]+/', ''), '/', '%2F')
  ),
  nullif(subscription, '')
)
