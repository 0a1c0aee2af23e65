concat_ws(
  ' ',
  system,
  concat(
    if(tenant = '/', '', tenant),
    '/',
    replace(replace(regexp_replace(queue, '^(non-)?persistent://[^/]+/[^/]+/', ''), '%', '%25'), '/', '%2F')
  ),
  nullif(subscription, '')
)
