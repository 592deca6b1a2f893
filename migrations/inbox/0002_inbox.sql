-- The messages that each consumer group has processed. A row is inserted in the transaction of the
-- message's effect, so this table decides whether a message is a duplicate. Kafka's offsets only say
-- where to continue reading.
create table processed_messages (
    consumer_group text        not null,
    message_id     uuid        not null,
    processed_at   timestamptz not null default now(),
    primary key (consumer_group, message_id)
);

-- For the reaper, which deletes the oldest rows in bounded batches.
--
-- A B-tree, although it has an entry for every message. It is cheap: all rows of a batch have the same
-- time and share one key, and new entries go to the last page. A BRIN index would be smaller but soon
-- useless. After a vacuum, new rows reuse the space of deleted ones, so each sweep would read every
-- block range that once held an old row.
create index processed_messages_age on processed_messages (processed_at);

-- Orders with a parked message. While the row exists, later messages of the order are parked behind the
-- failed one and are not handled.
--
-- This is a separate table because the consumer and a redrive need one stable row to lock. The consumer
-- takes a shared lock while it adds to the queue. A redrive takes an exclusive lock while it empties
-- the queue, and deletes the row at the end. No row of the queue can serve as that lock, because the
-- first row of the queue changes.
create table parked_orders (
    consumer_group text not null,
    subject        uuid not null,
    primary key (consumer_group, subject)
);

-- Messages that were read from Kafka but not handled: those that failed, and those parked behind them.
create table parked_messages (
    -- The position in the queue.
    id             bigint      not null generated always as identity primary key,
    consumer_group text        not null,
    -- The order id; null if the message does not name one. Such a message is parked alone.
    subject        uuid,
    -- Identifies a redelivered message: its id or, for an unreadable message, a hash of its content. So
    -- a corrected message is not mistaken for the unreadable one with the same id.
    identity       uuid        not null,
    -- Null if the message is unreadable.
    message_id     uuid,
    event_type     text,
    -- The message exactly as Kafka delivered it, so that a redrive handles the same bytes.
    kafka_key      bytea,
    header_names   text[]      not null,
    header_values  bytea[]     not null,
    payload        bytea,
    -- Its position in the topic, for operators.
    kafka_partition integer    not null,
    kafka_offset    bigint     not null,
    -- True for the message that failed, false for one parked behind it.
    failed         boolean     not null,
    cause          text        not null,
    -- How many times the handler was called with this message.
    tries          integer     not null,
    parked_at      timestamptz not null default now(),
    -- A message can be queued only while its order is parked.
    foreign key (consumer_group, subject) references parked_orders (consumer_group, subject)
);

-- A redelivered message is not parked twice.
create unique index parked_messages_identity on parked_messages (consumer_group, identity);
-- The queue of one order; also serves the foreign key.
create index parked_messages_queue on parked_messages (consumer_group, subject, id);
