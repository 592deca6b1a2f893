-- The log of mails is found by order. Its key began with the event id, which is a hash: each new mail changed another
-- page of the index. The log is kept, so the more mails it had, the more of these changes were the first of their page
-- since a checkpoint, and Postgres then writes the whole page to its own log. Ids of orders follow the time, so new
-- entries go to the end of this key.
--
-- An event belongs to one order, so this key is as strict. It also replaces the index over orders: one entry less for
-- each version of a row.
alter table mail_resolutions drop constraint mail_resolutions_event_id_mail_type_fkey;
alter table receipts drop constraint receipts_pkey;
alter table receipts add constraint receipts_pkey primary key (order_id, event_id, mail_type);
drop index receipts_order;

-- Finds the mail of a decision. An operator who names only the event finds a mail by its status or by this row.
alter table mail_resolutions add column order_id uuid;
update mail_resolutions set order_id = receipts.order_id
from receipts
where receipts.event_id = mail_resolutions.event_id and receipts.mail_type = mail_resolutions.mail_type;
alter table mail_resolutions alter column order_id set not null;
alter table mail_resolutions add foreign key (order_id, event_id, mail_type)
    references receipts (order_id, event_id, mail_type);
