-- Orders and their items. The status is written from the enum `Status` of the order service.
create table orders (
    id                  uuid        primary key,
    principal_id        text        not null,
    -- The merchant's own name for this purchase, such as a cart or an invoice. A double click sends
    -- two keys but one cart: this column catches it, even after every key has expired.
    reference           text,
    customer_id         text        not null,
    status              text        not null
        constraint orders_status_known
        check (status in ('placed', 'paid', 'shipped', 'declined', 'cancelled', 'refunded')),
    -- Counts the steps of an order's life. It is the ETag, and the condition of every update.
    version             integer     not null default 1,
    -- The number of the current payment attempt.
    attempt             integer     not null default 1,
    amount              bigint      not null check (amount > 0),
    currency            text        not null check (length(currency) = 3),
    payment_method      text        not null,
    -- SHA-256 of the canonical request body. It distinguishes a repeated request from a different
    -- one.
    content_hash        bytea       not null,
    correlation_id      text        not null,
    created_at          timestamptz not null default now(),
    updated_at          timestamptz not null default now(),
    -- When a client requested cancellation. It is only a request, because fulfilment alone decides.
    -- It is recorded once and never withdrawn; a repeated request changes nothing.
    cancel_requested_at timestamptz,
    constraint orders_reference_unique unique (principal_id, reference)
-- Leaves room in each page for an order's two status changes, so that they need no new index entries.
) with (fillfactor = 80);

-- Keyset pagination of one principal's orders, newest first.
create index orders_by_principal on orders (principal_id, created_at desc, id desc);

-- Only the statement that inserts an order inserts its items. There is no foreign key: it would check
-- on every line what that statement already guarantees.
create table order_items (
    order_id   uuid    not null,
    line       integer not null,
    sku        text    not null,
    quantity   integer not null check (quantity > 0),
    unit_price bigint  not null check (unit_price > 0),
    primary key (order_id, line)
);
