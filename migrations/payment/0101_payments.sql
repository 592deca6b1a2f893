-- Payment attempts, refunds, and the reports of the reconciler.

-- One row for each payment attempt. It is stored before the provider is called.
create table payments (
    -- The order, or the payment itself for a direct charge.
    order_id         uuid        not null,
    -- 1 and above for orders. Direct charges have attempt 0, so they never conflict with an order.
    attempt          integer     not null,
    -- Amount, currency and method never change: every try sends the same request under the same key.
    amount           bigint      not null,
    currency         text        not null,
    payment_method   text        not null,
    -- Passed on with the outcome: the lines to fulfilment, the customer to the receipt.
    lines            jsonb       not null,
    customer_id      text        not null default '',

    -- pending:  no result of a try is recorded yet.
    -- unknown:  the provider's response was lost. There may be a charge.
    -- captured: the money was taken. declined: it was not.
    -- voided:   closed without money. Fulfilment rejected the order before any charger leased the
    --           attempt, or the key was cancelled at the provider.
    status           text        not null
        check (status in ('pending', 'unknown', 'captured', 'declined', 'voided')),
    -- Calls so far, including a call whose process died.
    tries            integer     not null default 0,
    -- When the provider may have seen the key for the first time. The provider remembers a key for a
    -- limited time. After that the same key would charge again, so the charge is looked up instead.
    first_called_at  timestamptz,
    -- When a charger may lease the row. A new row is due now, a leased row at the end of its lease, and
    -- a row after a try without an answer at the end of the backoff. This is also the crash recovery:
    -- the lease of a dead charger ends, and another charger leases the row.
    due_at           timestamptz not null default now(),
    -- The token of the current lease. A result is written only if its token is still here, so a charger
    -- that was paused past its lease cannot overwrite newer work. Null once the attempt is settled.
    lease_token      uuid,
    -- Why the outcome is unknown.
    last_error       text,
    charge_id        text,
    decline_code     text,

    -- Set once, when fulfilment rejects the order. From then on chargers cancel the key at the provider
    -- instead of sending it, and money that was taken is refunded.
    rejected_at      timestamptz,
    rejection_reason text,

    -- Only direct charges have these. The client's idempotency key is completed in the commit that
    -- settles the attempt, and no event is published.
    principal_id     text,
    request_key      text,
    -- The client's name for what is paid, and a hash of the content that it was first used with. The
    -- reference prevents a second payment after the key has expired.
    reference        text,
    content_hash     bytea,

    correlation_id   text        not null,
    traceparent      text,
    created_at       timestamptz not null default now(),
    updated_at       timestamptz not null default now(),
    primary key (order_id, attempt),

    -- A rejection can come before its attempt: if the broker loses its data, messages of two services
    -- are published again in another order. The rejection then inserts a voided row without an amount,
    -- and the attempt that comes later finds its primary key taken.
    constraint payments_amount_check
        check (amount > 0 or (amount = 0 and status = 'voided' and tries = 0)),
    constraint only_open_is_leased
        check (lease_token is null or status in ('pending', 'unknown')),
    constraint captured_has_charge check (status <> 'captured' or charge_id is not null),
    constraint declined_has_code check (status <> 'declined' or decline_code is not null),
    constraint direct_is_whole
        check (num_nulls(principal_id, request_key, content_hash) in (0, 3))
) with (fillfactor = 70);

-- Chargers read due attempts from this index. The status comes first: chargers of first tries do not
-- read past a backlog of unknown outcomes.
create index payments_due on payments (status, due_at) where status in ('pending', 'unknown');

-- The last line of defence against a double charge: an order has at most one attempt that may take
-- money or has taken it. A second one is a bug, and its insert fails.
create unique index payments_one_live on payments (order_id)
    where status in ('pending', 'unknown', 'captured');

-- One payment per reference, forever. Of two concurrent requests the second waits here for the first.
-- Partial, so that attempts of orders, which are most rows, cost nothing.
create unique index payments_reference_unique on payments (principal_id, reference)
    where reference is not null;

-- The reconciler reads the provider's ledger and this table in the order of charge ids.
create index payments_by_charge on payments (charge_id collate "C") where charge_id is not null;

-- One row for each refund. It is stored before the provider is called.
create table refunds (
    -- At most one refund per charge.
    charge_id       text        primary key,
    -- The provider's idempotency key: `refund:<order>:<attempt>`, or `refund:orphan:<charge>` for a
    -- charge that no attempt owns.
    key             text        not null unique,
    order_id        uuid        not null,
    attempt         integer     not null,
    amount          bigint      not null check (amount > 0),
    currency        text        not null,
    -- `out_of_stock`, `cancelled` or `orphan`.
    reason          text        not null,
    status          text        not null
        check (status in ('pending', 'unknown', 'refunded')),
    -- The lease, as in `payments`.
    tries           integer     not null default 0,
    first_called_at timestamptz,
    due_at          timestamptz not null default now(),
    lease_token     uuid,
    last_error      text,
    refund_id       text,
    correlation_id  text        not null,
    traceparent     text,
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    constraint only_open_is_leased
        check (lease_token is null or status in ('pending', 'unknown')),
    constraint refunded_has_id check (status <> 'refunded' or refund_id is not null)
) with (fillfactor = 70);

create index refunds_due on refunds (due_at) where status in ('pending', 'unknown');
-- All refunds of an order, for operators.
create index refunds_by_order on refunds (order_id);

-- Reports of the reconciler, which compares the provider's books with our tables. Each run inserts its
-- row at the start, updates it in the commit of each page, and sets the end. A row without an end
-- belongs to a run that is active or was interrupted; the next run repeats an interrupted one.
create table reconciliations (
    id              bigint      primary key generated always as identity,
    trigger         text        not null check (trigger in ('schedule', 'operator')),
    started_at      timestamptz not null default now(),
    finished_at     timestamptz,
    pages           integer     not null default 0,
    -- Charges read from the books, and captured attempts looked for in them.
    charges         bigint      not null default 0,
    attempts        bigint      not null default 0,
    -- Charges too recent to judge: a charger may still be working on them.
    recent          bigint      not null default 0,
    -- Attempts and refunds that a charge or refund in the books settled, and refunds opened for orphan
    -- charges.
    settled         bigint      not null default 0,
    refunds_settled bigint      not null default 0,
    refunds_opened  bigint      not null default 0,
    -- The number of differences, and the details of the first ones.
    differing       bigint      not null default 0,
    differences     jsonb       not null default '[]'
);
