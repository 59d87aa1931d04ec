update dag set active = false where id = $1 and active
