-- Money on its way back: the intent, stored before the provider is called, as with charges.
create table refunds (
    -- One refund per charge, whatever the code believes.
    charge_id       text        primary key,
    -- What the provider knows it by: `refund:<order>:<attempt>`, or `refund:orphan:<charge>` for a
    -- charge that no attempt owns.
    key             text        not null unique,
    order_id        uuid        not null,
    attempt         integer     not null,
    amount          bigint      not null check (amount > 0),
    currency        text        not null,
    -- Why: `out_of_stock`, `cancelled`, `orphan`.
    reason          text        not null,
    status          text        not null default 'pending'
        check (status in ('pending', 'unknown', 'refunded')),
    -- The columns of a lease, with the meaning that they have in `payments`.
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
-- What became of an order's money.
create index refunds_by_order on refunds (order_id);
