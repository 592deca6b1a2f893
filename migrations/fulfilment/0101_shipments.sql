-- Units in stock, per SKU. available + reserved is constant: the total that was stocked.
create table stock (
    sku       text   primary key,
    -- The last guard against overselling: an update that would oversell fails here.
    available bigint not null check (available >= 0),
    -- Allocated to orders that shipped.
    reserved  bigint not null default 0 check (reserved >= 0)
) with (fillfactor = 50); -- few rows with frequent updates: free space keeps updates on the page

-- One row per order with a captured payment or a cancellation request. The row is the decision
-- whether the order ships. No other table and no other service makes this decision.
create table shipments (
    order_id   uuid        primary key,
    -- The payment attempt that the decision was last announced for.
    attempt    integer     not null,
    -- Empty if the cancellation request came before the payment: the lines are not known then.
    lines      jsonb       not null,
    -- 'cancelled': the cancellation request came first. A payment captured later does not ship.
    -- 'rejected': paid, but out of stock.
    status     text        not null default 'paid'
        check (status in ('paid', 'shipped', 'rejected', 'cancelled')),
    -- Why the order does not ship.
    reason     text,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    constraint rejection_has_reason
        check (status not in ('rejected', 'cancelled') or reason is not null)
) with (fillfactor = 80);
