-- The message id first: it tells two entries apart at the first comparison. The group is the same in nearly all of
-- them, and comparing texts takes longer.
alter table processed_messages drop constraint processed_messages_pkey;
alter table processed_messages add primary key (message_id, consumer_group);
