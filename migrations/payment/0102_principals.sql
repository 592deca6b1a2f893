-- Slots for provider calls are shared between principals, so chargers lease each principal's rows
-- separately. Every attempt and refund therefore names its principal.

-- The principal that the order or the direct charge belongs to. Empty if it is not known: events of
-- older releases do not name it, nor does an orphan charge. `principal_id` stays: it marks direct
-- charges, and the release before this one reads it.
alter table payments add column principal text not null default '';
alter table refunds add column principal text not null default '';

-- Every principal that ever had an attempt. Chargers look into the queue of each.
create table charged_principals (
    principal text primary key
);
insert into charged_principals (principal) values ('');

-- One queue per principal, in the order in which its rows become due. The status comes first: chargers
-- of first tries do not read past a backlog of unknown outcomes.
create index payments_queue on payments (status, principal, due_at)
    where status in ('pending', 'unknown');
create index refunds_queue on refunds (principal, due_at) where status in ('pending', 'unknown');

-- The old release can lease without these: it then reads the new indexes and sorts.
drop index payments_due;
drop index refunds_due;

-- The time of the insert, not of the transaction's start: a transaction takes its lock on the table
-- before it computes the time. So once all writers that held the lock at some time have ended, no row
-- that was due by then can appear any more, and chargers may skip that part of the index.
alter table payments alter column due_at set default clock_timestamp();
alter table refunds alter column due_at set default clock_timestamp();
