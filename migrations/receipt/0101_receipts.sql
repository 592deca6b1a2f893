-- The log of mails: one row for each mail that an event requires. The row commits together with the
-- event's processed message, before anything is sent.
create table receipts (
    -- The event that requires the mail, and the type of the mail. A repeated event finds the
    -- existing row.
    event_id       uuid        not null,
    mail_type      text        not null check (mail_type = 'receipt'),
    order_id       uuid        not null,
    attempt        integer     not null,
    -- Fixed when the row is written: every try has the same recipient and the same content.
    recipient      text        not null,
    amount         bigint      not null,
    currency       text        not null,
    lines          jsonb       not null,
    status         text        not null
        check (status in ('pending', 'sent', 'failed', 'unknown')),
    -- SMTP dialogues started so far, including one whose sender died.
    tries          integer     not null default 0,
    -- Tries that may have delivered the mail. SMTP has no idempotency key, so a sender cannot ask
    -- the server whether it has a mail. The lease counts the try before the first byte is sent, and
    -- only a response that rules out delivery takes it back. The limit is two, so no mail arrives
    -- more than twice.
    tries_in_doubt integer     not null default 0 check (tries_in_doubt between 0 and 2),
    -- When a sender may lease the row. A new row is due now, a leased row at the end of its lease,
    -- and a row that waits for a retry at the end of the backoff.
    due_at         timestamptz not null default now(),
    -- The current lease. A sender that was paused past its lease no longer holds this token, and its
    -- result is discarded.
    lease_token    uuid,
    last_error     text,
    sent_at        timestamptz,
    correlation_id text        not null,
    traceparent    text,
    created_at     timestamptz not null default now(),
    updated_at     timestamptz not null default now(),
    primary key (event_id, mail_type),
    constraint only_pending_is_leased check (lease_token is null or status = 'pending'),
    constraint sent_has_a_time check ((status = 'sent') = (sent_at is not null)),
    constraint failure_has_a_reason
        check (status not in ('failed', 'unknown') or last_error is not null)
) with (fillfactor = 70);

-- The sender reads due mails here. Contains only pending rows, so it stays small.
create index receipts_due on receipts (due_at) where status = 'pending';

-- Operators look up receipts by order.
create index receipts_order on receipts (order_id);
