-- Lists the orders of a rare status without reading all others.
--
-- Null on the way from placed to shipped, so status changes there touch no indexed column and need no new
-- index entries (HOT updates). An index over `status` itself, even a partial one, would end that: Postgres
-- counts the columns of an index's predicate as indexed.
alter table orders add column ended_status text generated always as (
    case when status in ('declined', 'cancelled', 'refunded') then status end
) stored;

create index orders_ended on orders (principal_id, ended_status, created_at desc, id desc)
    where ended_status is not null;
