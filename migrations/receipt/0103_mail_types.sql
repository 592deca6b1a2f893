-- Customers get a mail about a declined payment, a cancelled order and a refund too. Until now the
-- only mail of an order that did not ship was the one that thanks for it.
alter table receipts drop constraint receipts_mail_type_check;
alter table receipts add constraint receipts_mail_type_check
    check (mail_type in ('receipt', 'decline', 'cancellation', 'refund'));

-- A cancelled order was not charged, and events of older releases do not say how much a declined
-- payment was about. The mail then names no amount.
alter table receipts alter column amount drop not null;
alter table receipts alter column currency drop not null;
alter table receipts add constraint amount_has_currency check ((amount is null) = (currency is null));

-- Why the order does not ship: `out_of_stock` or `cancelled`. Null for other mails.
alter table receipts add column reason text;
