select name from asset where active order by name limit $1
