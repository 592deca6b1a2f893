-- An attempt whose outcome the provider never told is `unknown`: somebody asked, and there may be a
-- charge. One that fulfilment refused before any charger had leased it is `voided`; so is one whose
-- key was burnt at the provider.
alter table payments
    drop constraint payments_status_check,
    add constraint payments_status_check
        check (status in ('pending', 'unknown', 'captured', 'declined', 'voided')),
    drop constraint only_pending_is_leased,
    add constraint only_open_is_leased
        check (lease_token is null or status in ('pending', 'unknown')),
    -- A refusal may come before the attempt that it refuses (when the broker lost its data, messages
    -- of two services change places). Then a voided row without an amount takes the attempt's place,
    -- and the attempt, when it comes, meets a primary key that is taken.
    drop constraint payments_amount_check,
    add constraint payments_amount_check
        check (amount > 0 or (amount = 0 and status = 'voided' and tries = 0)),
    -- Passed on with the outcome, for the receipt.
    add column customer_id text not null default '',
    -- Set once, when fulfilment will not ship what this attempt pays for. From then on the key is
    -- cancelled at the provider instead of sent, and money that was taken goes back.
    add column refused_at timestamptz,
    add column refusal text;

-- The chargers' way in. Those of first tries and of repeated ones are apart, so that a pile of
-- unknown outcomes never stands before a fresh order.
drop index payments_due;
create index payments_due on payments (status, due_at) where status in ('pending', 'unknown');

-- The last line of defence, wider than before: an order has one attempt that may take money or has
-- taken it. A second one is an error of ours, and fails loudly.
create unique index payments_one_live on payments (order_id)
    where status in ('pending', 'unknown', 'captured');
drop index payments_one_capture;

-- The reconciler walks the provider's books by charge id, and this table beside them.
create index payments_by_charge on payments (charge_id collate "C") where charge_id is not null;
