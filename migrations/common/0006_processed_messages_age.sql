-- The reaper's way into the ledger: the oldest first, a bounded batch at a time.
-- A B-tree, though it has an entry for each message: all rows of a batch carry the same time, so they
-- share one entry's key, and new entries go to the last page. A BRIN index would be smaller, and soon
-- of no use: vacuum gives the space of old rows to new ones, and a range that has held an old row once
-- is read again by every sweep.
create index processed_messages_age on processed_messages (processed_at);
