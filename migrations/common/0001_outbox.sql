-- Events on their way to Kafka. A service inserts here in the transaction that makes the change the
-- event announces, so there is never one without the other; a relay publishes and marks.
create table outbox (
    -- Orders the events of one order: they are written under that order's row lock. It does not
    -- order commits, so nobody may read "everything after the last id I saw": a transaction that
    -- took its number early and commits late would be skipped for ever.
    -- Not a primary key: nobody looks for a published row by its id, and an index over all rows
    -- would tempt the planner to walk past the published ones to find the few that are not.
    id             bigint      not null generated always as identity,
    -- Derived from the fact itself and repeated on every publication; what ledgers recognise.
    event_id       uuid        not null,
    event_type     text        not null,
    source         text        not null,
    -- The order; the Kafka key.
    subject        uuid        not null,
    -- Which relay publishes it: one owner per shard at a time keeps one order's events in order.
    shard          smallint    not null,
    correlation_id text        not null,
    traceparent    text,
    -- JSON as text: it is only ever passed on, so Postgres need not parse it.
    payload        text        not null,
    created_at     timestamptz not null default now(),
    published_at   timestamptz
) with (
    -- Every row is updated once, soon after it was written.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02
);

-- Small however long the table grows: it holds what is still to be published.
create unique index outbox_unpublished on outbox (id) where published_at is null;
