-- The outbox keeps what it has published for a while: if the broker loses its data, the window is
-- published again. Rows leave by whole partitions, dropped in an instant, instead of being deleted one
-- by one. A worker of each service makes partitions ahead and drops old ones (crate `outbox`).
-- Rows that are here stay, in a partition of their own that ends now.
alter table outbox rename to outbox_before;
drop index outbox_unpublished;
alter table outbox_before alter column id drop identity;

-- Not an identity: Postgres 15 and 16 have none on partitioned tables.
create sequence outbox_ids;
select setval('outbox_ids', (select coalesce(max(id), 0) + 1 from outbox_before), false);

create table outbox (
    -- Orders the events of one order: they are written under that order's row lock. It does not
    -- order commits, so nobody may read "everything after the last id I saw": a transaction that
    -- took its number early and commits late would be skipped for ever.
    -- Not a primary key: nobody looks for a published row by its id, and an index over all rows
    -- would tempt the planner to walk past the published ones to find the few that are not.
    id             bigint      not null default nextval('outbox_ids'),
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
) partition by range (created_at);
alter sequence outbox_ids owned by outbox.id;

-- Small however long the table grows: it holds what is still to be published. One in each partition.
create index outbox_unpublished on outbox (id) where published_at is null;

-- The safety net: no insert fails because nobody has made its partition. What lands here is deleted
-- row by row when its time has come.
create table outbox_default partition of outbox default with (
    -- Every row is updated once, soon after it was written.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02
);

do $$
begin
    if exists (select from outbox_before) then
        -- The rename has locked everybody out, so whatever is in there was written before this moment.
        execute format(
            'alter table outbox attach partition outbox_before for values from (minvalue) to (%L)',
            clock_timestamp());
    else
        drop table outbox_before;
    end if;
end $$;
