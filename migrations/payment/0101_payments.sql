-- One row for each payment attempt: the intent to charge, stored before the provider is called.
create table payments (
    order_id       uuid        not null,
    attempt        integer     not null,
    -- Frozen with the attempt: every try sends the same amount under the same key.
    amount         bigint      not null check (amount > 0),
    currency       text        not null,
    payment_method text        not null,
    -- Passed through to fulfilment with the outcome.
    lines          jsonb       not null,
    status         text        not null default 'pending'
        check (status in ('pending', 'captured', 'declined')),
    -- Calls made so far, including one whose caller died.
    tries          integer     not null default 0,
    -- When the provider may have heard of its key for the first time: from then on the provider's
    -- memory of it runs, and past that memory the same key would charge again.
    first_called_at timestamptz,
    -- When a charger may take it: now for a fresh one, the end of the lease while one works on it,
    -- the end of the backoff after a try that told nothing. A dead charger needs no other repair
    -- than this moment coming.
    due_at         timestamptz not null default now(),
    -- The lease in force. A charger that was paused past its lease no longer has the token in the
    -- row, and its result is refused. Gone once the attempt is settled: a token that fits is all
    -- that an update needs to ask for.
    lease_token    uuid,
    last_error     text,
    charge_id      text,
    decline_code   text,
    correlation_id text        not null,
    traceparent    text,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    primary key (order_id, attempt),
    constraint only_pending_is_leased check (lease_token is null or status = 'pending'),
    constraint captured_has_charge check (status <> 'captured' or charge_id is not null),
    constraint declined_has_code check (status <> 'declined' or decline_code is not null)
) with (fillfactor = 70);

-- The last line of defence, whatever the code believes: one captured attempt per order.
create unique index payments_one_capture on payments (order_id) where status = 'captured';

-- What the charger looks for; holds only open attempts.
create index payments_due on payments (due_at) where status = 'pending';
