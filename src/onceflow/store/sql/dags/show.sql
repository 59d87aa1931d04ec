-- What is stored of one DAG beside its listing: its spec, its subscriptions and the last judgement. $1 dag_id.
select d.storm, d.release_rate, v.spec, d.last_judged_at, d.last_judgement, d.anchor_at, f.failure, f.warnings,
       (select coalesce(json_agg(json_build_object('asset', a.name, 'from_seq', s.from_seq, 'until_seq', s.until_seq,
                                                   'asset_seq', a.seq) order by a.name, s.from_seq), '[]')
        from subscription s join asset a on a.id = s.asset_id where s.dag_id = d.id) as subscriptions
from dag d
join dag_file f on f.id = d.file_id
left join dag_version v on v.id = d.version_id
where d.dag_id = $1
