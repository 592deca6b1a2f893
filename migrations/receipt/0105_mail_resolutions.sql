-- What operators decided about mails in doubt, and why. The number of tries that the operator saw
-- identifies the decision: a repeated request finds it and changes nothing, and a decision that was
-- made before a further try does not apply to that try.
create table mail_resolutions (
    event_id   uuid        not null,
    mail_type  text        not null,
    tries      integer     not null,
    -- send: one more try. settle: the mail counts as sent.
    action     text        not null check (action in ('send', 'settle')),
    reason     text        not null,
    created_at timestamptz not null default now(),
    primary key (event_id, mail_type, tries),
    foreign key (event_id, mail_type) references receipts (event_id, mail_type)
);
