-- How much there is, in one statement, so that the numbers belong together.
select (select count(*) from event) as events, (select count(*) from delivery) as deliveries,
       (select count(*) from run) as runs,
       (select json_object_agg(disposition, n) from (select disposition, count(*) as n from delivery group by 1) x)
         as by_disposition
