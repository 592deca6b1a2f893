-- The provider's books: one row for each physical charge.
--
-- Deliberately without a unique constraint on reference or key. A provider cannot tell that two keys
-- belong to one order, or that a key whose window has closed was used before. If a caller makes that
-- mistake, two rows appear here, and every test that counts them fails.
create table charges (
    -- UUIDv7, assigned by the provider: new rows go to the end of the index, and the ledger pages by
    -- it.
    id              uuid primary key,
    idempotency_key text        not null,
    -- The caller's name for what is paid: the order id.
    reference       text        not null,
    -- In the currency's minor unit.
    amount          bigint      not null check (amount > 0),
    currency        text        not null,
    payment_method  text        not null,
    -- One value today. A refund is a row in another table and does not change this one: rows in the
    -- books are added, never updated.
    status          text        not null check (status = 'captured'),
    created_at      timestamptz not null
);

-- A caller that lost a response looks up its charge by reference or by key.
create index charges_reference on charges (reference);
create index charges_idempotency_key on charges (idempotency_key);

-- One row for each physical refund.
--
-- Deliberately without a unique constraint on charge, reference or key, for the same reason as
-- charges. A caller that refunds one charge under two keys refunds it twice, and both rows appear.
create table refunds (
    -- UUIDv7, assigned by the provider.
    id              uuid primary key,
    -- No foreign key: charges are never deleted, and the charge was read before this row was written.
    charge_id       uuid        not null,
    idempotency_key text        not null,
    -- The caller's name for what was paid: the order id.
    reference       text        not null,
    -- In the minor unit of the charge's currency.
    amount          bigint      not null check (amount > 0),
    currency        text        not null,
    status          text        not null check (status = 'refunded'),
    created_at      timestamptz not null
);

-- Every page of the ledger looks up the refunds of its charges.
create index refunds_charge_id on refunds (charge_id);
-- A caller that lost a response looks up its refund by reference or by key.
create index refunds_reference on refunds (reference);
create index refunds_idempotency_key on refunds (idempotency_key);

-- The provider's own idempotency: the response stored under a key until its window closes.
--
-- A row is written in the same statement as its charge or refund. So a crash cannot leave an "in
-- progress" state here: a key is unknown, or it has a response.
create table requests (
    key         text        primary key,
    -- What the key was used for. Charges and refunds share one key space: a key means one request.
    --
    -- 'cancellation' is a cancelled key: nothing was charged under it, and nothing will be inside its
    -- window. It is the same row that a charge must write, so the primary key decides which came
    -- first, also between two processes.
    operation   text        not null
        check (operation in ('charge', 'refund', 'cancellation')),
    -- SHA-256 of the request. The same key with another request gets an error, not a replay. Empty
    -- for a cancelled key, which stops every charge and not only one request.
    fingerprint bytea       not null,
    -- The response as sent, to be replayed byte for byte. A decline is stored too.
    status      smallint    not null,
    body        text        not null,
    -- Null when nothing was charged. No foreign key: it would cost a lookup and a row lock on every
    -- charge, to prevent a mistake that one statement cannot make.
    charge_id   uuid,
    created_at  timestamptz not null,
    -- After this time the key is free again: the row is overwritten and the key charges again.
    -- Expired rows are not removed; a mock lives as long as a test or a demo.
    expires_at  timestamptz not null
);
