-- The log of mails: one row for each mail that an event asks for, written with the event's ledger
-- row, before anything is sent.
create table receipts (
    -- What asked for the mail, and which mail it asked for: a repeat of the event finds its row.
    event_id       uuid        not null,
    mail_type      text        not null check (mail_type = 'receipt'),
    order_id       uuid        not null,
    attempt        integer     not null,
    -- Frozen with the row: every try goes to the same address and says the same.
    recipient      text        not null,
    amount         bigint      not null,
    currency       text        not null,
    lines          jsonb       not null,
    status         text        not null default 'pending'
        check (status in ('pending', 'sent', 'failed', 'unknown')),
    -- Dialogues begun so far, including one whose sender died.
    tries          integer     not null default 0,
    -- Tries that may have delivered the mail. SMTP knows no idempotency key, so nobody can ask a
    -- server whether it has a mail already. Counted with the lease, so before the first byte goes
    -- out, and taken back only by the server's word that this try delivered nothing. Two is the
    -- end: no mail arrives more often than that.
    doubts         integer     not null default 0 check (doubts between 0 and 2),
    -- When a sender may take it: now for a fresh one, the end of the lease while one works on it,
    -- the end of the backoff after a try that is to be repeated.
    due_at         timestamptz not null default now(),
    -- The lease in force; a sender that was paused past its lease no longer has it, and what it
    -- says is refused.
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
    constraint a_bad_end_has_a_reason
        check (status not in ('failed', 'unknown') or last_error is not null)
) with (fillfactor = 70);

-- What the sender looks for; holds only open rows.
create index receipts_due on receipts (due_at) where status = 'pending';

-- An operator asks by order.
create index receipts_order on receipts (order_id);
