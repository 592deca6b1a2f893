-- Intake: stores key, order, items, event and response of any number of requests in one statement.
-- These parameters are arrays with one element per request:
--   $1 order id            $2 principal id       $3 route (null: no key)  $4 key
--   $5 advisory lock id    $6 fingerprint        $7 reference (nullable)  $8 customer id
--   $9 amount              $10 currency          $11 payment method       $12 content hash
--   $13 correlation id     $14 response status   $15 response headers     $16 response body
--   $17 event id           $18 event type        $19 event source         $20 event payload
--   $21 traceparent        $22 outbox shard
-- These are arrays with one element per item of any order:
--   $23 order id           $24 line              $25 sku                  $26 quantity
--   $27 unit price
-- These hold for all: $28 key window in seconds, $29 format version of the responses,
--   $30 status of a new order.
-- Returns one row per request, in the order of the requests.
with input as materialized (
    select *,
        -- If another request holds the key, this one is in flight and must not wait for the row.
        -- The transaction holds the lock, so locking one key twice in this statement succeeds.
        key is null or pg_try_advisory_xact_lock(lock_id) as free
    from unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bytea[], $7::text[],
        $8::text[], $9::bigint[], $10::text[], $11::text[], $12::bytea[], $13::text[],
        $14::smallint[], $15::jsonb[], $16::bytea[], $17::uuid[], $18::text[], $19::text[],
        $20::text[], $21::text[], $22::smallint[]
    ) with ordinality as request (
        order_id, principal_id, route, key, lock_id, fingerprint, reference,
        customer_id, amount, currency, payment_method, content_hash, correlation_id,
        response_status, response_headers, response_body, event_id, event_type, source,
        payload, traceparent, shard, ordinal
    )
),
claimed as (
    insert into idempotency_keys (
        principal_id, route, key, fingerprint, resource_id,
        response_version, response_status, response_headers, response_body, expires_at
    )
    select principal_id, route, key, fingerprint, order_id,
        $29, response_status, response_headers, response_body,
        now() + make_interval(secs => $28)
    from input where key is not null and free
    on conflict do nothing
    returning resource_id
),
placed as (
    insert into orders (
        id, principal_id, reference, customer_id, status, amount, currency, payment_method,
        content_hash, correlation_id
    )
    select order_id, principal_id, reference, customer_id, $30, amount, currency, payment_method,
        content_hash, correlation_id
    from input where key is null or order_id in (select resource_id from claimed)
    -- Two statements that insert the same references or ids insert them in the same order, so
    -- that they do not deadlock.
    order by principal_id, reference, order_id
    on conflict do nothing -- a repeated PUT of the id, or a reference that is taken
    returning id
),
lines as (
    insert into order_items (order_id, line, sku, quantity, unit_price)
    select * from unnest($23::uuid[], $24::integer[], $25::text[], $26::integer[], $27::bigint[])
        as item (order_id, line, sku, quantity, unit_price)
    where item.order_id in (select id from placed)
),
announced as (
    insert into outbox (
        event_id, event_type, source, subject, shard, correlation_id, traceparent, payload
    )
    select event_id, event_type, source, order_id, shard, correlation_id, traceparent, payload
    -- An array that is too short gives null: see service_kit::UNPROTECTED.
    from input where event_id is not null and order_id in (select id from placed)
)
select
    case
        when not free then 'in_flight'
        when order_id in (select id from placed) then 'placed'
        when order_id in (select resource_id from claimed) then 'reference_taken'
        else 'known'
    end as "state!"
from input
order by ordinal
