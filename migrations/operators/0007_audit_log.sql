-- What operators changed: who, when, what and why. Each service has its own copy, so that a row commits
-- together with the change it describes.
create table audit_log (
    id             bigint      generated always as identity primary key,
    -- The time of the row, not of its transaction: a redrive may take a while.
    at             timestamptz not null default clock_timestamp(),
    -- The name that the operator's token belongs to.
    operator       text        not null,
    -- What was done, such as `parked.discard`.
    action         text        not null,
    -- What it was done to, such as the id of a parked message.
    subject        text        not null,
    -- Why, in the operator's words.
    reason         text        not null,
    detail         jsonb       not null,
    -- The same id is in the log lines of the request.
    correlation_id text        not null
);

-- The log is evidence, so rows are only added. For each statement: a truncate has no rows to look at, and
-- a statement that would change nothing is a mistake too.
create function block_audit_log_change() returns trigger language plpgsql as $$
begin
    raise exception 'audit_log is append-only: % is not allowed', tg_op using errcode = 'insufficient_privilege';
end $$;

create trigger audit_log_append_only before update or delete or truncate on audit_log
    for each statement execute function block_audit_log_change();
