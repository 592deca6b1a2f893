-- Operators look up the events of one order (GET /admin/timeline/{order_id}). Without an index each look-up
-- would read every partition.
--
-- Over published rows only. The insert of an event, which a customer waits for, writes no entry here. The
-- relay's mark writes it: one entry per event, in a batch, where the mark already writes a new version of the
-- row. Unpublished events are few and in the relay's queue; a look-up reads the end of that queue instead.
create index outbox_published on outbox (subject) where published_at is not null;
