-- Only orders with a reference have an entry. Most orders have none, and an entry for each of them would cost as
-- much as one of the primary key.
alter table orders drop constraint orders_reference_unique;
create unique index orders_reference_unique on orders (principal_id, reference) where reference is not null;
