-- When somebody asked for the order not to ship: a wish, since fulfilment alone decides. It is
-- recorded once and never withdrawn; asking again changes nothing, however long after.
alter table orders add column cancel_requested_at timestamptz;
