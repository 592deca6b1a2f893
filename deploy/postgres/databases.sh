#!/bin/bash
# Runs once, on an empty volume. Creates a database for each service, with a role that no other service uses,
# and a role for the lab that may read all databases. All roles share one password: this prevents mistakes,
# not attacks.
set -eo pipefail

sql() { psql -v ON_ERROR_STOP=1 --no-psqlrc --quiet --username "$POSTGRES_USER" "$@"; }

sql -v password="$DATABASE_PASSWORD" <<'SQL'
create role lab login password :'password';
grant pg_read_all_data, pg_read_all_stats to lab;
SQL
for service in order payment fulfilment receipt psp; do
    sql -v service="$service" -v password="$DATABASE_PASSWORD" <<'SQL'
create role :"service" login password :'password';
create database :"service" owner :"service";
revoke connect on database :"service" from public;
grant connect on database :"service" to lab;
SQL
done
