-- True for an event that is published again. It is older than the time that it has waited for a relay, so it must not
-- count as a wait: intake would shed new orders because of it.
alter table outbox add column republished boolean not null default false;
