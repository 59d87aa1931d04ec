-- What was decided about a DAG since a time, the newest first: judgements without a run, decisions with runs, what people
-- did, versions, subscriptions. $1 dag, $2 since, $3 limit.
(select j.judged_at as at, 'judged' as what, j.process_id as process, v.number as version, 0::bigint as runs, j.explanation,
        null::text as intervention, null::text as pending, null::json as by, null::text as reason,
        null::text as asset
 from judgement j left join dag_version v on v.id = j.version_id where j.dag_id = $1 and j.judged_at >= $2 order by 1 desc limit $3)
union all
(select c.decided_at, 'decided', c.process_id, v.number, (select count(*) from run r where r.decision_id = c.id), c.explanation,
        null, null, null, null, null
 from decision c join dag_version v on v.id = c.version_id where c.dag_id = $1 and c.decided_at >= $2 order by 1 desc limit $3)
union all
(select i.made_at, 'intervention', null, null, 0, null, i.kind, i.pending, i.by, i.reason, null
 from intervention i where i.dag_id = $1 and i.made_at >= $2 order by 1 desc limit $3)
union all
(select v.created_at, 'version', null, v.number, 0, null, null, null, null, null, null
 from dag_version v where v.dag_id = $1 and v.created_at >= $2 order by 1 desc limit $3)
union all
(select s.began_at, 'subscribed', null, null, 0, null, null, null, null, null, a.name
 from subscription s join asset a on a.id = s.asset_id where s.dag_id = $1 and s.began_at >= $2 order by 1 desc limit $3)
union all
(select s.ended_at, 'unsubscribed', null, null, 0, null, null, null, null, case when s.lapsed then 'no file defined the DAG' end, a.name
 from subscription s join asset a on a.id = s.asset_id where s.dag_id = $1 and s.ended_at >= $2 order by 1 desc limit $3)
order by 1 desc limit $3
