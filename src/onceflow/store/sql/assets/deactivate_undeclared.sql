update asset a set active = false where a.id = any ($1::bigint[]) and a.active
  and not exists (select 1 from asset_declaration x where x.asset_id = a.id)
