-- The ledger: which messages a consumer group has processed. Inserted in the transaction of the
-- effect, so it is the authority on "already done"; Kafka's offsets are only a hint where to read on.
create table processed_messages (
    consumer_group text        not null,
    message_id     uuid        not null,
    processed_at   timestamptz not null default now(),
    primary key (consumer_group, message_id)
);
