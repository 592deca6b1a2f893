-- Makes the cost of one step of a relay independent of the backlog of other relays, and lets a relay
-- continue when some events cannot be delivered.

-- The time of the insert, not of the transaction's begin. Two consequences matter. Events of one order,
-- which are written one after the other under its row lock, have ascending times. And no writer that
-- locks this table after a given moment writes an earlier time (see `database::horizon` in service-kit).
alter table outbox alter column created_at set default clock_timestamp();

-- True while the event's order is in `outbox_held`.
alter table outbox add column held boolean not null default false;

-- The relay's queue, now by shard: a relay does not read rows of shards that belong to another relay.
-- Shard and id in one number, so that a statement can look up a list of rows without a join: for a join,
-- a plan that was made while the table was empty may read the whole queue.
drop index outbox_unpublished;
create index outbox_unpublished on outbox (((shard::bigint << 48) + id))
    where published_at is null and not held;

-- Finds the held events of an order when it is released.
create index outbox_held_events on outbox (subject) where held;

-- The default partition is empty unless maintenance did not run for a while. Maintenance reads it by
-- time: which ranges have rows here, and which rows are old.
create index outbox_default_age on outbox_default (created_at);

-- Orders whose next event cannot be delivered now: its Kafka partition has no leader, or Kafka rejects the
-- event. Their events leave the relay's queue, so that the events of other orders continue. Later events
-- of such an order are held too, so that they do not overtake.
create table outbox_held (
    subject         uuid        primary key,
    shard           smallint    not null,
    -- The Kafka partition that is unavailable; null if Kafka rejected the event.
    kafka_partition integer,
    reason          text        not null,
    held_at         timestamptz not null default now(),
    -- When the relay tries again; `infinity` if only an operator can release the order.
    retry_at        timestamptz not null
);
create index outbox_held_due on outbox_held (shard, retry_at);
-- Counts what only an operator can release.
create index outbox_held_rejected on outbox_held (held_at) where kafka_partition is null;

-- Positions of delivered events: for each Kafka partition one row per minute, with the last event of
-- that minute. If a different event, or none, is at a position, then the broker has lost data since the
-- newest position that is still right.
create table outbox_positions (
    kafka_partition   integer     not null,
    minute            timestamptz not null,
    kafka_offset      bigint      not null,
    event_id          uuid        not null,
    -- The oldest event that was delivered to the partition in that minute. A held event may be older
    -- than the last one.
    oldest_created_at timestamptz not null,
    primary key (kafka_partition, minute)
) with (fillfactor = 50);

-- The republication that is in progress: at most one. While it is, relays publish only events created
-- before `ready_until`. Older ones are all marked as unpublished again by then, so no event overtakes an
-- earlier one of its order.
create table outbox_republication (
    -- Allows one row.
    singleton   boolean     primary key default true check (singleton),
    since       timestamptz not null,
    -- Events created later have not been published before the loss and need no mark.
    until       timestamptz not null,
    ready_until timestamptz not null,
    republished bigint      not null default 0,
    reason      text        not null
);
