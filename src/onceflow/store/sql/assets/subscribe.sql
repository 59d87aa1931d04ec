-- $1 dag, $2 assets, $3 whether stored history is replayed first, $4 not what was recorded before.
select subscribe($1, $2, $3, $4)
