-- The sender skips the part of the queue in which every mail is settled (service_kit::database::Horizon).
-- A writer must therefore compute `due_at` while it holds its lock on the table. now() is the start of
-- the transaction, which may be earlier than the lock.
alter table receipts alter column due_at set default clock_timestamp();
