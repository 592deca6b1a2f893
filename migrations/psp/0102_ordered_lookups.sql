-- Look-ups return the first rows in the order of ids. With the id in these indexes, no plan has to choose
-- between sorting the matches and reading the whole table in the order of its primary key.
drop index charges_reference;
drop index charges_idempotency_key;
drop index refunds_charge_id;
drop index refunds_reference;
drop index refunds_idempotency_key;
create index charges_reference on charges (reference, id);
create index charges_idempotency_key on charges (idempotency_key, id);
create index refunds_charge_id on refunds (charge_id, id);
create index refunds_reference on refunds (reference, id);
create index refunds_idempotency_key on refunds (idempotency_key, id);
