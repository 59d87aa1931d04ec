select asset_id, name from watch_declaration where file_id = $1
