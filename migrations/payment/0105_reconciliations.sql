-- Reports of the reconciler: the provider's books held against our tables. A row is written when a
-- sweep begins, with every page in the commit of what the page did, and when it ends; one without an
-- end was interrupted, and the next sweep does its work again.
create table reconciliations (
    id              bigint      primary key generated always as identity,
    trigger         text        not null check (trigger in ('schedule', 'operator')),
    started_at      timestamptz not null default now(),
    finished_at     timestamptz,
    pages           integer     not null default 0,
    -- Charges seen in the books, and captured attempts that were looked for there.
    charges         bigint      not null default 0,
    attempts        bigint      not null default 0,
    -- Too young to judge: somebody is probably at them.
    young           bigint      not null default 0,
    -- What was done: attempts and refunds whose outcome the books told, refunds of orphan charges.
    settled         bigint      not null default 0,
    refunds_settled bigint      not null default 0,
    refunds_opened  bigint      not null default 0,
    -- How many differences were found, and the first of them.
    differing       bigint      not null default 0,
    differences     jsonb       not null default '[]'
);
