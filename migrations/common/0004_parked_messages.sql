-- Orders of which a message could not be processed. While its row is here, later messages of the order
-- are stored behind the parked one instead of being handled.
-- A table of its own, because this row is what a consumer and a redrive lock: the consumer shares it
-- while it adds to the queue, the redrive holds it alone while it empties the queue and deletes it at
-- the end. A row of the queue itself could not serve: the first one is another each time.
create table parked_orders (
    consumer_group text not null,
    subject        uuid not null,
    primary key (consumer_group, subject)
);

-- Messages that were taken from Kafka and not handled: the failed ones, and those that wait behind them.
create table parked_messages (
    -- The order of the queue.
    id             bigint      not null generated always as identity primary key,
    consumer_group text        not null,
    -- The order; null for a message that does not say. Such a message is parked alone.
    subject        uuid,
    -- What tells that the same message has come again: its id, or for one that cannot be read a hash
    -- of its content. A readable message is not taken for an unreadable one with the same id.
    identity       uuid        not null,
    -- As far as they can be read.
    message_id     uuid,
    event_type     text,
    -- As it came, so that it can be handled as it came.
    kafka_key      bytea,
    header_names   text[]      not null,
    header_values  bytea[]     not null,
    payload        bytea,
    -- Where it stood in the topic, for people.
    kafka_partition integer    not null,
    kafka_offset    bigint     not null,
    -- True for the message that failed, false for one that waits behind it.
    failed         boolean     not null,
    cause          text        not null,
    -- How often it was handed to the handler.
    tries          integer     not null,
    parked_at      timestamptz not null default now(),
    -- Nothing waits in the queue of an order that is not held up.
    foreign key (consumer_group, subject) references parked_orders (consumer_group, subject)
);

-- A redelivered message is not parked twice.
create unique index parked_messages_identity on parked_messages (consumer_group, identity);
-- The queue of one order, and the foreign key's own question.
create index parked_messages_queue on parked_messages (consumer_group, subject, id);
