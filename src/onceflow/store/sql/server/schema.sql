select coalesce(max(number), 0) as number from migration
