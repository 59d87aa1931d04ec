-- How much there is that should not be there when everything has come to rest: deliveries that nobody has judged, and
-- runs under way or waiting, of DAGs that may run.
select (select count(*) from delivery y where y.disposition = 'pending' and not y.judged)
     + (select count(*) from run r join dag d on d.id = r.dag_id
        where r.state in ('queued', 'running') and d.active and not d.paused and r.run_type <> 'scheduled') as unsettled
