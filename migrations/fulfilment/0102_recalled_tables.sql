-- A restored database does not know the decisions since its backup. A service that starts on it before
-- `fulfilment recall` would decide again, perhaps differently: it could reject, and so refund, what it has shipped.
--
-- `pg_restore` creates the tables anew, under other OIDs, and brings this row along. So a row that names another
-- OID than that of `shipments` says that these tables were restored and that nothing was recalled since.
create table recalled_tables (
    only_row      boolean primary key default true check (only_row),
    shipments_oid oid     not null
);

-- Tables with decisions may come from a backup that is older than this migration: they are recalled once.
insert into recalled_tables (shipments_oid)
select 'shipments'::regclass::oid where not exists (select from shipments);
