-- The other side of the books: one row for each time money was really given back. The charge's row
-- stays as it is; books are appended to, never corrected.
--
-- Deliberately without any uniqueness on charge, reference or key, for the same reason as charges:
-- a caller that refunds one charge under two keys gives the money back twice, and both rows stand
-- here for every test that counts them.
create table refunds (
    -- UUIDv7, made by the provider.
    id              uuid primary key,
    -- No foreign key: charges are never deleted, and the charge was read before this row was written.
    charge_id       uuid        not null,
    idempotency_key text        not null,
    -- The caller's own name for what was paid: the order id.
    reference       text        not null,
    -- In the minor unit of the charge's currency.
    amount          bigint      not null check (amount > 0),
    currency        text        not null,
    status          text        not null check (status = 'refunded'),
    created_at      timestamptz not null
);

-- "Was this charge given back?", asked for every page of the ledger; and the two questions of a
-- caller that lost the answer.
create index refunds_charge_id on refunds (charge_id);
create index refunds_reference on refunds (reference);
create index refunds_idempotency_key on refunds (idempotency_key);
