-- What a real provider can answer: an outcome that comes later, a definite error, an error that it
-- repeats under the key, a refund made by hand. And ids that a stranger chose.

-- The name of what is paid, as the provider knows it. Null: the order id. A direct charge has a name of its
-- own: a client may choose the id of a direct charge for an order, and a look-up by reference must not find
-- the charge of the other.
alter table payments add column provider_reference text;

-- Direct charges (attempt 0) are not attempts of an order. With them in this index, an order under the id
-- of a direct charge could never be paid: the insert of its first attempt failed.
drop index payments_one_live;
create unique index payments_one_live on payments (order_id)
    where attempt > 0 and status in ('pending', 'unknown', 'captured');

-- What the key is good for.
-- usable:     sending it charges, or repeats the answer of the first time.
-- processing: the provider has accepted it and decides later; sending it again shows the same "later".
-- spent:      the provider repeats a stored error for it.
-- In the last two states a charger looks the charge up instead.
alter table payments add column key_state text not null default 'usable'
    check (key_state in ('usable', 'processing', 'spent'));
-- When the key was last sent. A look-up may lag behind: an absence counts only some time after this.
alter table payments add column sent_at timestamptz;

-- failed: a definite error. No money moved, and none will under this key.
alter table payments add column failure_code text;
alter table payments drop constraint payments_status_check;
alter table payments add constraint payments_status_check
    check (status in ('pending', 'unknown', 'captured', 'declined', 'voided', 'failed'));
alter table payments add constraint failed_has_code
    check (status <> 'failed' or failure_code is not null);

-- The same for refunds.
alter table refunds add column key_state text not null default 'usable'
    check (key_state in ('usable', 'processing', 'spent'));
alter table refunds add column sent_at timestamptz;
alter table refunds add column provider_reference text;
-- failed: the provider will not give the money back. Only an operator can settle it.
alter table refunds add column failure_code text;
alter table refunds drop constraint refunds_status_check;
alter table refunds add constraint refunds_status_check
    check (status in ('pending', 'unknown', 'refunded', 'failed'));
alter table refunds add constraint failed_has_code
    check (status <> 'failed' or failure_code is not null);
-- The gauge of failed refunds reads this.
create index refunds_failed on refunds (charge_id) where status = 'failed';

-- Charges in the provider's books that no attempt explains: their row was lost with a restored database,
-- the account is the wrong one, or a person made them. The money is never given back automatically: an
-- operator refunds or accepts each one. A charge whose attempt comes back later is explained.
create table unexplained_charges (
    charge_id       text        primary key,
    idempotency_key text        not null,
    reference       text        not null,
    amount          bigint      not null,
    currency        text        not null,
    charged_at      timestamptz not null,
    first_seen_at   timestamptz not null default now(),
    -- open, explained (an attempt has it now), accepted or refunded (by an operator).
    status          text        not null
        check (status in ('open', 'explained', 'accepted', 'refunded')),
    settled_at      timestamptz,
    -- Who settled it, and why; null while open.
    operator        text,
    reason          text,
    constraint settled_has_a_time check ((status = 'open') = (settled_at is null))
);
create index unexplained_open on unexplained_charges (charge_id) where status = 'open';

-- How far the reconciler has read the books. One row.
create table reconciliation_progress (
    only_row    boolean     primary key default true check (only_row),
    -- Every charge up to this id is compared. A scheduled run starts after it, so its cost grows with what
    -- is new.
    verified_to text        not null default '',
    -- The full walk repeats the comparison of old charges, a limited number of pages per run. Null: no walk
    -- is under way.
    walk_after  text,
    walked_at   timestamptz not null default now()
);
insert into reconciliation_progress default values;

-- Why a run ended before the end of the books; null for a complete one.
alter table reconciliations add column stopped text;
