-- The provider's own idempotency: the answer given to a key, kept until its window closes.
--
-- A row is written in the same statement as its charge, so there is no "in progress" state here
-- that a crash could leave behind: a key is unknown, or it has an answer.
create table requests (
    key         text        primary key,
    -- SHA-256 of the request. The same key with another request is refused, not replayed.
    fingerprint bytea       not null,
    -- The answer as sent, to be repeated byte for byte. Declines are answers too.
    status      smallint    not null,
    body        text        not null,
    -- Null when nothing was charged. No foreign key: it would cost a lookup and a row lock on every
    -- charge, to guard against a mistake that one statement cannot make.
    charge_id   uuid,
    created_at  timestamptz not null,
    -- Past this time the key is as good as new: the row is overwritten and the key charges again.
    -- Nothing reaps the rest; a mock lives as long as a test or a demo.
    expires_at  timestamptz not null
);
