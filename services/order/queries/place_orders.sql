-- Intake: key, order, items, event and answer of any number of requests, in one statement.
-- Every parameter but the last group is an array with one element per request:
--   $1 order id            $2 principal id       $3 route (null: no key)  $4 key
--   $5 advisory lock id    $6 fingerprint        $7 reference (nullable)  $8 customer id
--   $9 amount              $10 currency          $11 payment method       $12 content hash
--   $13 correlation id     $14 answer headers    $15 answer body          $16 event id
--   $17 event payload      $18 traceparent       $19 outbox shard
-- For all: $20 seconds that a key is honoured, $26 format of the answers. Items, one element per line of any order:
--   $21 order id           $22 line              $23 sku                  $24 quantity
--   $25 unit price
-- Gives one row per request, in their order.
with input as materialized (
    select *,
        -- A key that another request holds right now is in flight: its caller is told so at once
        -- instead of waiting on the row. A lock is held by its transaction, so twice here is fine.
        key is null or pg_try_advisory_xact_lock(lock_id) as free
    from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::text[],
        $8::text[], $9::bigint[], $10::text[], $11::text[], $12::bytea[], $13::text[],
        $14::jsonb[], $15::bytea[], $16::uuid[], $17::text[], $18::text[], $19::smallint[]
    ) with ordinality as request (
        order_id, principal_id, route, key, lock_id, fingerprint, reference,
        customer_id, amount, currency, payment_method, content_hash, correlation_id,
        answer_headers, answer_body, event_id, payload, traceparent, shard, ordinal
    )
),
claimed as (
    insert into idempotency_keys (
        principal_id, route, key, fingerprint, resource_id,
        response_version, response_status, response_headers, response_body, expires_at
    )
    select principal_id, route, key, fingerprint, order_id,
        $26, 201, answer_headers, answer_body, now() + make_interval(secs => $20)
    from input where key is not null and free
    on conflict do nothing
    returning resource_id
),
placed as (
    insert into orders (
        id, principal_id, reference, customer_id, amount, currency, payment_method, content_hash,
        correlation_id
    )
    select order_id, principal_id, reference, customer_id, amount, currency, payment_method,
        content_hash, correlation_id
    from input where key is null or order_id in (select resource_id from claimed)
    -- Two statements that take the same references or ids take them in the same order.
    order by principal_id, reference, order_id
    on conflict do nothing -- the same id put again, or the same reference
    returning id
),
lines as (
    insert into order_items (order_id, line, sku, quantity, unit_price)
    select * from unnest($21::uuid[], $22::integer[], $23::text[], $24::integer[], $25::bigint[])
        as item (order_id, line, sku, quantity, unit_price)
    where item.order_id in (select id from placed)
),
announced as (
    insert into outbox (
        event_id, event_type, source, subject, shard, correlation_id, traceparent, payload
    )
    select event_id, 'order.placed', 'order', order_id, shard, correlation_id, traceparent, payload
    from input where order_id in (select id from placed)
)
select
    case
        when not free then 'in_flight'
        when order_id in (select id from placed) then 'placed'
        when order_id in (select resource_id from claimed) then 'claimed'
        else 'known'
    end as "outcome!"
from input
order by ordinal
