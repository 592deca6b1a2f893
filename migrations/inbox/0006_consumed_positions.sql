-- The newest message of each Kafka partition that a consumer group has processed and found again in the
-- topic: its position and its event id.
--
-- A consumer reads the message at this position back and compares the id. If another message is there,
-- the log was replaced (the topic was recreated, the broker lost its disk), and the group's offset points
-- into the new log by accident. The consumer then reads the partition from its start.
--
-- One row per group and partition, updated every few seconds.
create table consumed_positions (
    consumer_group  text    not null,
    topic           text    not null,
    kafka_partition integer not null,
    kafka_offset    bigint  not null,
    event_id        uuid    not null,
    primary key (consumer_group, topic, kafka_partition)
) with (fillfactor = 50);
