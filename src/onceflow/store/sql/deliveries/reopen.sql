-- After an edit or a return: what was held for want of the DAG, or because it could not be judged, is pending again, and
-- all of it is judged anew.
update delivery set disposition = 'pending', judged = false, reason = null
where dag_id = $1 and judged and disposition in ('pending', 'held')
  and (disposition = 'pending' or reason = any ($2::text[]) or starts_with(reason, 'error: '))
