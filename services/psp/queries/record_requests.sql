-- Records requests with their charges and refunds, in one statement. A key that is already recorded, and
-- not expired, keeps its first response; the statement returns it.
-- One array element per request: $1 key, $2 operation, $3 fingerprint, $4 status, $5 body, $6 created at,
-- $7 expires at, $8 charge id, $9 refund id, $10 refunded charge, $11 reference, $12 amount, $13 currency,
-- $14 payment method, $15 status of the charge or refund; if it is pending, $16 what it becomes, $17 why it
-- fails, $18 when.
with entry as (
    select key, operation, fingerprint, status, body, created_at, expires_at,
           charge_id, refund_id, refunded_id, reference, amount, currency, payment_method,
           effect_status, outcome, failure_code, settles_at
    from unnest($1::text[], $2::text[], $3::bytea[], $4::smallint[], $5::text[],
                $6::timestamptz[], $7::timestamptz[], $8::uuid[], $9::uuid[], $10::uuid[],
                $11::text[], $12::bigint[], $13::text[], $14::text[], $15::text[], $16::text[],
                $17::text[], $18::timestamptz[])
        as entry (key, operation, fingerprint, status, body, created_at, expires_at,
                  charge_id, refund_id, refunded_id, reference, amount, currency,
                  payment_method, effect_status, outcome, failure_code, settles_at)
), claimed as (
    insert into requests as present
        (key, operation, fingerprint, status, body, charge_id, created_at, expires_at)
    select key, operation, fingerprint, status, body, charge_id, created_at, expires_at
    from entry
    -- Two processes with overlapping batches lock in the same order.
    order by key
    on conflict (key) do update
    set operation = excluded.operation, fingerprint = excluded.fingerprint,
        status = excluded.status, body = excluded.body, charge_id = excluded.charge_id,
        created_at = excluded.created_at, expires_at = excluded.expires_at
    where present.expires_at <= excluded.created_at
    returning key
), charged as (
    insert into charges
        (id, idempotency_key, reference, amount, currency, payment_method, status,
         created_at, outcome, failure_code, settles_at)
    select entry.charge_id, entry.key, entry.reference, entry.amount, entry.currency,
           entry.payment_method, entry.effect_status, entry.created_at, entry.outcome,
           entry.failure_code, entry.settles_at
    from entry join claimed on claimed.key = entry.key
    where entry.charge_id is not null
), refunded as (
    insert into refunds
        (id, charge_id, idempotency_key, reference, amount, currency, status, created_at,
         outcome, failure_code, settles_at)
    select entry.refund_id, entry.refunded_id, entry.key, entry.reference, entry.amount,
           entry.currency, entry.effect_status, entry.created_at, entry.outcome,
           entry.failure_code, entry.settles_at
    from entry join claimed on claimed.key = entry.key
    where entry.refund_id is not null
)
select entry.key as "key!", claimed.key is not null as "is_new!",
       found.operation as "operation?", found.fingerprint as "fingerprint?",
       found.status as "status?", found.body as "body?"
from entry
left join claimed on claimed.key = entry.key
left join lateral (
    select operation, fingerprint, status, body
    from requests
    where requests.key = entry.key and claimed.key is null
    limit 1
) found on true
