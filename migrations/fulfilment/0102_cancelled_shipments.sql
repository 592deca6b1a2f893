-- An order may be called off before its payment is known here. Its row is the decision: whatever is
-- captured for it later does not ship. What it would have been is not known then, so its lines are
-- an empty list.
alter table shipments
    drop constraint shipments_status_check,
    add constraint shipments_status_check
        check (status in ('paid', 'shipped', 'rejected', 'cancelled')),
    drop constraint rejected_has_reason,
    add constraint refused_has_reason
        check (status not in ('rejected', 'cancelled') or reason is not null);
