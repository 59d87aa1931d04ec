select $1::bigint[], $2::int[], $3::uuid[], $4::boolean[], $5::float8[], $6::timestamptz[]
