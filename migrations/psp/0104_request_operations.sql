-- Charges and refunds take their keys from one space: a key means one request, whatever it asks for.
--
-- 'cancellation' is a burnt key: nobody charged under it, and inside its window nobody will. It
-- stands in the same row that a charge would have to write, so the primary key decides which of the
-- two came first, also between two processes. Its fingerprint is empty, because it refuses every
-- charge and not only one that was asked for before.
alter table requests
    -- Whoever does not name it only knows charges.
    add column operation text not null default 'charge'
        check (operation in ('charge', 'refund', 'cancellation'));
