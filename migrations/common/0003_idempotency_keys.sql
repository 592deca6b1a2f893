-- One row for each request that a client may repeat: what it asked, and what it was answered.
create table idempotency_keys (
    -- Scope: two tenants, or two routes, never collide.
    principal_id     text        not null,
    route            text        not null,
    key              text        not null,
    -- SHA-256 of the request, salted per principal; another one under the same key is a client bug.
    fingerprint      bytea       not null,
    -- What the request made or works on, known before the answer is.
    resource_id      uuid,
    -- How to read the response columns; null while the work is not finished.
    response_version smallint,
    response_status  smallint,
    response_headers jsonb,
    response_body    bytea,
    created_at       timestamptz not null default now(),
    -- End of the window in which the key is honoured.
    expires_at       timestamptz not null,
    primary key (principal_id, route, key),
    constraint response_is_whole check (
        num_nulls(response_version, response_status, response_headers, response_body) in (0, 4)
    )
);

-- The reaper's way in: the oldest first, a bounded batch at a time.
create index idempotency_keys_expiry on idempotency_keys (expires_at);
