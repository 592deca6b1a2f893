-- Real providers do not decide everything at once: a bank debit is processed for days, and a refund can come
-- back because the account was closed. So a charge or a refund can be pending, and gets its status later.
--
-- These three columns are null in a row that was final from the start. In the others they say what comes:
-- the status, why it failed, and when. The provider's settler then changes the status. So every reader of
-- the table sees the true status, and does not have to compare times.
alter table charges
    add column outcome      text check (outcome in ('captured', 'failed')),
    -- Set from the start, but true only once the status is 'failed'.
    add column failure_code text,
    add column settles_at   timestamptz,
    drop constraint charges_status_check,
    add constraint charges_status_check check (status in ('pending', 'captured', 'failed')),
    -- A pending row without an outcome or a time would stay pending.
    add constraint charges_pending_settles
        check (status <> 'pending' or (outcome is not null and settles_at is not null)),
    add constraint charges_failure_has_code check (outcome <> 'failed' or failure_code is not null);

alter table refunds
    add column outcome      text check (outcome in ('refunded', 'failed')),
    add column failure_code text,
    add column settles_at   timestamptz,
    drop constraint refunds_status_check,
    add constraint refunds_status_check check (status in ('pending', 'refunded', 'failed')),
    add constraint refunds_pending_settles
        check (status <> 'pending' or (outcome is not null and settles_at is not null)),
    add constraint refunds_failure_has_code check (outcome <> 'failed' or failure_code is not null);

-- The settler's queues. A settled row leaves them, and an immediate charge never enters.
create index charges_settle on charges (settles_at) where status = 'pending';
create index refunds_settle on refunds (settles_at) where status = 'pending';
