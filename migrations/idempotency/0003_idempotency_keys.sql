-- One row for each request that a client may repeat: the request, and the response to replay.
create table idempotency_keys (
    -- The scope of a key: equal keys of two principals, or on two routes, never collide.
    principal_id     text        not null,
    route            text        not null,
    key              text        not null,
    -- SHA-256 of the request, salted per principal. A different request with the same key is a client
    -- error and is rejected.
    fingerprint      bytea       not null,
    -- The resource that the request creates or works on. It is known before the response.
    resource_id      uuid,
    -- The format of the response columns; null until the work is finished.
    response_version smallint,
    response_status  smallint,
    response_headers jsonb,
    response_body    bytea,
    created_at       timestamptz not null default now(),
    -- The end of the window in which the key is honoured.
    expires_at       timestamptz not null,
    primary key (principal_id, route, key),
    constraint response_is_whole check (
        num_nulls(response_version, response_status, response_headers, response_body) in (0, 4)
    )
);

-- For the reaper, which deletes the oldest rows in bounded batches.
create index idempotency_keys_expiry on idempotency_keys (expires_at);
