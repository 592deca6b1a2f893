-- Who may ask for direct charges. An API key names a principal; only its hash is kept. The order
-- service has its own: no service reads another's tables.
create table principals (
    id               text        primary key,
    -- Makes the same request of two principals hash differently, so that fingerprints tell nothing.
    fingerprint_salt bytea       not null default decode(replace(gen_random_uuid()::text, '-', ''), 'hex'),
    created_at       timestamptz not null default now()
);

create table api_keys (
    -- SHA-256. Keys are long random strings, so a slow password hash would buy nothing.
    key_hash     bytea       primary key,
    principal_id text        not null references principals (id),
    created_at   timestamptz not null default now()
);
