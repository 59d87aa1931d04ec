-- One registration at a time, from here to the end of its transaction: names and URIs may not contradict each other over
-- all files, which no constraint can say, and a DAG that moves brings assets along which its new file does not name.
select pg_advisory_xact_lock(hashtext('onceflow assets'))
