-- $1 dag, $2 how many runs, $3 and $4 their events, $5 what becomes of what they make, $6 by whom, $7 why, $8 details,
-- $9 explanation, $10 request, $11 now.
select id, run_id, paused from create_lane_runs($1, 'replay', $2, null, $3, $4, $5, $6, $7, $8, $9, $10, $11)
