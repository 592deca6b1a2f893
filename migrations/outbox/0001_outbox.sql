-- Events to be published to Kafka. A service inserts an event in the transaction that makes the change
-- the event announces, so neither exists without the other. A relay publishes the row and marks it.
--
-- Published rows stay for a retention window: if the broker loses its data, the window is published
-- again. Old rows are removed by dropping whole partitions, which is faster than deleting rows. The
-- reaper of each service creates partitions ahead and drops old ones (crate `outbox`).

-- A sequence and not an identity column: Postgres 15 and 16 have no identity on partitioned tables.
create sequence outbox_ids;

create table outbox (
    -- Sorts the events of one order, because they are written under that order's row lock. Across
    -- orders, ids do not follow the sequence of commits. So a relay must not read "all rows after the
    -- last id": it would miss a row that got a low id and committed late.
    --
    -- Not a primary key: published rows are never looked up by id. With an index over all rows, the
    -- planner might read all published rows to find the few unpublished ones.
    id             bigint      not null default nextval('outbox_ids'),
    -- Derived from the event's content, so a repeated publication has the same id and consumers
    -- recognise it.
    event_id       uuid        not null,
    event_type     text        not null,
    source         text        not null,
    -- The order id, which is also the Kafka key.
    subject        uuid        not null,
    -- Decides which relay publishes the row. One owner per shard keeps the events of one order in order.
    shard          smallint    not null,
    correlation_id text        not null,
    traceparent    text,
    -- JSON stored as text: Postgres never reads it, so it need not parse it.
    payload        text        not null,
    created_at     timestamptz not null default now(),
    published_at   timestamptz
) partition by range (created_at);
alter sequence outbox_ids owned by outbox.id;

-- The relay's queue. It holds unpublished rows only, so it stays small. Each partition has its own.
create index outbox_unpublished on outbox (id) where published_at is null;

-- Takes rows for which no partition was created in time, so that no insert fails. The reaper deletes
-- its old rows one by one.
create table outbox_default partition of outbox default with (
    -- Every row is updated once, soon after the insert: leave room on its page, and vacuum early.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02
);
