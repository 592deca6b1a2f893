-- The provider's books: one row for each time money was really taken.
--
-- Deliberately without any uniqueness on reference or key. A provider does not know that two keys
-- belong to one order, nor that a key it has forgotten was used before. If a caller gets that
-- wrong, two rows stand here, and every test that counts them turns red.
create table charges (
    -- UUIDv7, made by the provider: new rows land at the end of the index, and the ledger pages by it.
    id              uuid primary key,
    idempotency_key text        not null,
    -- The caller's own name for what is paid: the order id.
    reference       text        not null,
    -- In the currency's minor unit.
    amount          bigint      not null check (amount > 0),
    currency        text        not null,
    payment_method  text        not null,
    -- One value today. Refunds will be rows of their own, not a change of this one: books are
    -- appended to, never corrected.
    status          text        not null check (status = 'captured'),
    created_at      timestamptz not null
);

-- "Was this order charged?" and "what became of this key?", asked when a caller lost the answer.
create index charges_reference on charges (reference);
create index charges_idempotency_key on charges (idempotency_key);
