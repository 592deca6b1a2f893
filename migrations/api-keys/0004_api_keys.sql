-- The clients that may call a service. Each service with an API has its own copy: no service reads
-- another's tables.
create table principals (
    id               text        primary key,
    -- Salts fingerprints, so that equal requests of two principals hash differently and reveal nothing.
    fingerprint_salt bytea       not null default decode(replace(gen_random_uuid()::text, '-', ''), 'hex'),
    created_at       timestamptz not null default now()
);

-- An API key names a principal. Only its hash is stored.
create table api_keys (
    -- SHA-256. Keys are long random strings, so a slow password hash adds nothing.
    key_hash     bytea       primary key,
    principal_id text        not null references principals (id),
    created_at   timestamptz not null default now()
);
