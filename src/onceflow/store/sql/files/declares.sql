-- Whether file $1 defines a DAG or declares an asset, as it was last registered.
select exists (select 1 from dag d where d.file_id = $1 and d.active) or exists (select 1 from asset_declaration x where x.file_id = $1)
