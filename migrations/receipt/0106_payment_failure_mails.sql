-- Customers get a mail about a payment that failed at the provider too, once the order waits for them.
alter table receipts drop constraint receipts_mail_type_check;
alter table receipts add constraint receipts_mail_type_check
    check (mail_type in ('receipt', 'decline', 'payment_failure', 'cancellation', 'refund'));
