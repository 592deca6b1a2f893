create table stock (
    sku       text   primary key,
    -- Below zero is impossible, whatever the code believes.
    available bigint not null check (available >= 0),
    -- Gone out with shipments; available + reserved stays what was put in.
    reserved  bigint not null default 0 check (reserved >= 0)
) with (fillfactor = 50); -- few rows, updated all the time: keep the updates on the page

-- One row for each order whose payment was captured; the decision to ship is made here and nowhere
-- else.
create table shipments (
    order_id   uuid        primary key,
    attempt    integer     not null,
    lines      jsonb       not null,
    status     text        not null default 'paid'
        check (status in ('paid', 'shipped', 'rejected')),
    -- Why it does not ship.
    reason     text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint rejected_has_reason check (status <> 'rejected' or reason is not null)
) with (fillfactor = 80);
