-- One registration at a time declares assets, to the end of its transaction: names and URIs may not contradict each other
-- over all files, which no constraint can say.
select pg_advisory_xact_lock(hashtext('onceflow assets'))
