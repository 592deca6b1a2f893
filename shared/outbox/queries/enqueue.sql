-- Adds events to the outbox. Each parameter is an array with one element per event.
-- The columns are those of outbox::COLUMNS; a test compares them.
insert into outbox (
    event_id, event_type, source, subject, shard, correlation_id, traceparent, payload
)
select * from unnest(
    $1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::smallint[], $6::text[], $7::text[],
    $8::text[]
)
