-- The provider can answer a payment with a definite error. The order is then `failed`: no money was taken,
-- and the customer can pay again, as after a decline.
alter table orders drop constraint orders_status_known;
alter table orders add constraint orders_status_known
    check (status in ('placed', 'paid', 'shipped', 'declined', 'failed', 'cancelled', 'refunded'));

-- How often this service opened the next attempt by itself, because the provider repeated a stored error
-- for the last one. Limited, so that a provider that is broken for good does not cause attempts without end.
alter table orders add column reopened integer not null default 0;

-- A generated column cannot be changed: it is replaced, which rewrites the table.
drop index orders_ended;
alter table orders drop column ended_status;
alter table orders add column ended_status text generated always as (
    case when status in ('declined', 'failed', 'cancelled', 'refunded') then status end
) stored;
create index orders_ended on orders (principal_id, ended_status, created_at desc, id desc)
    where ended_status is not null;
