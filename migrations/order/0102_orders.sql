create table orders (
    id             uuid        primary key,
    principal_id   text        not null,
    -- The merchant's own name for this purchase (cart, invoice). A double click mints two keys but
    -- has one cart: this is what catches it, and goes on catching it after every key has expired.
    reference      text,
    customer_id    text        not null,
    status         text        not null default 'placed'
        check (status in ('placed', 'paid', 'shipped', 'declined', 'cancelled', 'refunded')),
    -- Counts changes; the ETag, and the condition of every update.
    version        integer     not null default 1,
    -- The payment attempt in force.
    attempt        integer     not null default 1,
    amount         bigint      not null check (amount > 0),
    currency       text        not null check (length(currency) = 3),
    payment_method text        not null,
    -- SHA-256 of the canonical request body: tells "the same again" from "something else".
    content_hash   bytea       not null,
    correlation_id text        not null,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    constraint orders_reference_unique unique (principal_id, reference)
) with (fillfactor = 80); -- room for the two status changes of an order's life, off the indexes

-- Keyset pagination of one principal's orders, newest first.
create index orders_by_principal on orders (principal_id, created_at desc, id desc);

-- Written only by the statement that writes their order, and never without it; a foreign key would
-- check on every line what cannot be otherwise.
create table order_items (
    order_id   uuid    not null,
    line       integer not null,
    sku        text    not null,
    quantity   integer not null check (quantity > 0),
    unit_price bigint  not null check (unit_price > 0),
    primary key (order_id, line)
);
