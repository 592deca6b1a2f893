-- A mail about something that happened long ago confuses its customer: the topic was read again from
-- its start, a new consumer group was created, or the mail server was away for days. Such a mail is
-- held until an operator releases it.
alter table receipts drop constraint receipts_status_check;
alter table receipts add constraint receipts_status_check
    check (status in ('pending', 'held', 'sent', 'failed', 'unknown'));

-- When the event happened. Rows of older releases count from this migration.
alter table receipts add column event_time timestamptz not null default now();
-- When an operator decided that the mail may be sent whatever its age.
alter table receipts add column released_at timestamptz;

-- Operators list these mails, and a gauge counts them. Contains only rows that wait for an operator.
create index receipts_for_operator on receipts (status, event_id, mail_type)
    where status in ('held', 'failed', 'unknown');
