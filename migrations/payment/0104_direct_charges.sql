-- Direct charges: asked for over HTTP instead of by an order. They are attempts like all others (the
-- payment's own id stands in `order_id`, with attempt 0, which no order has), charged by the same charger under the same kind of key;
-- only what follows differs: their outcome completes the caller's idempotency key in the same
-- commit, and no event is announced.
alter table payments
    -- Whose it is; null for an attempt of an order.
    add column principal_id text,
    -- The caller's idempotency key, completed by whoever records the outcome.
    add column request_key text,
    -- The caller's own name for what is paid, and the content it was first used with. It goes on
    -- protecting when the key's window has closed.
    add column reference text,
    add column content_hash bytea,
    add constraint direct_is_whole
        check (num_nulls(principal_id, request_key, content_hash) in (0, 3));

-- One payment per reference, for good. Two requests at once meet here, and the second waits for the
-- first. Partial: the attempts of orders, which are most rows, cost it nothing.
create unique index payments_reference_unique on payments (principal_id, reference)
    where reference is not null;
