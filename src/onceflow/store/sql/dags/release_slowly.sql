-- $1 dag, $2 now.
select released, seconds from release_slowly($1, $2)
