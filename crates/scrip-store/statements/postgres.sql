-- Statements that are put together from parts. A test writes this file; see CONTRIBUTING.md.
-- In psql, give the parameters with \bind; in sqlite3, with .parameter set.

-- find_token
SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.id = $2
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3);

-- find_tokens
SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.id = ANY ($2)
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3);

-- find_duplicate
(SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $2
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1)
UNION ALL (SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $3
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1);

-- find_duplicate_to_read
(SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $2
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1)
UNION ALL (SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.duplicate_read_key = $3
    AND coalesce(tokens.expires_at, 9223372036854775807) > $4 AND tokens.id <> $5
ORDER BY coalesce(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.number
LIMIT 1);

-- list_expired_tokens
SELECT tokens.number, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.tenant = tokens.tenant AND cvcs.token = tokens.number
WHERE tokens.tenant = $1 AND tokens.expires_at <= $2
ORDER BY tokens.expires_at, tokens.number LIMIT $3;

-- list_heads
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac FROM chain_heads AS it WHERE log = 'audit' ORDER BY it.tenant;

-- list_chains
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac, (SELECT min(at) FROM (
    SELECT * FROM (SELECT at FROM log_records WHERE log = 'audit' AND tenant = it.tenant ORDER BY sequence LIMIT 1) AS first
    UNION ALL SELECT * FROM (
        SELECT at FROM log_records WHERE log = 'audit' AND tenant = it.tenant AND actor_kind <> 'operator'
        ORDER BY sequence LIMIT 1) AS first_of_others) AS oldest)
FROM chain_heads AS it WHERE log = 'audit' ORDER BY it.tenant;

-- list_checkpoints
SELECT tenant, sequence, link, at, mac FROM chain_checkpoints WHERE log = 'audit' ORDER BY tenant;

-- list_all_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE log = 'audit' ORDER BY tenant, sequence;

-- list_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE log = 'audit' AND tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3;

-- scan_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE log = 'audit' AND tenant = $1 AND sequence >= $2 AND sequence < $3
ORDER BY sequence DESC LIMIT $4;

-- find_first_and_last
SELECT (SELECT sequence FROM log_records WHERE log = 'audit' AND tenant = $1 ORDER BY sequence LIMIT 1),
    (SELECT sequence FROM log_records WHERE log = 'audit' AND tenant = $1 ORDER BY sequence DESC LIMIT 1);

-- find_time_range
SELECT min(at), max(at) FROM (
    SELECT at FROM log_records WHERE log = 'audit' AND tenant = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3) AS it;

-- find_checkpoint
SELECT tenant, sequence, link, at, mac FROM chain_checkpoints WHERE log = 'audit' AND tenant = $1;

-- put_checkpoint
INSERT INTO chain_checkpoints (tenant, log, sequence, link, at, mac)
VALUES ($1, 'audit', $2, $3, $4, $5)
ON CONFLICT (tenant, log) DO UPDATE SET sequence = $2, link = $3, at = $4, mac = $5;

-- delete_pruned
DELETE FROM log_records WHERE log = 'audit' AND tenant = $1 AND sequence <= $2;

-- find_chain_head
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac FROM chain_heads AS it WHERE log = 'audit' AND it.tenant = $1;

-- resign_head
UPDATE chain_heads SET mac = $1 WHERE tenant = $2 AND sequence = $3 AND log = 'audit';

-- list_heads
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac FROM chain_heads AS it WHERE log = 'read' ORDER BY it.tenant;

-- list_chains
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac, (SELECT min(at) FROM (
    SELECT * FROM (SELECT at FROM log_records WHERE log = 'read' AND tenant = it.tenant ORDER BY sequence LIMIT 1) AS first
    UNION ALL SELECT * FROM (
        SELECT at FROM log_records WHERE log = 'read' AND tenant = it.tenant AND actor_kind <> 'operator'
        ORDER BY sequence LIMIT 1) AS first_of_others) AS oldest)
FROM chain_heads AS it WHERE log = 'read' ORDER BY it.tenant;

-- list_checkpoints
SELECT tenant, sequence, link, at, mac FROM chain_checkpoints WHERE log = 'read' ORDER BY tenant;

-- list_all_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE log = 'read' ORDER BY tenant, sequence;

-- list_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE log = 'read' AND tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3;

-- scan_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE log = 'read' AND tenant = $1 AND sequence >= $2 AND sequence < $3
ORDER BY sequence DESC LIMIT $4;

-- find_first_and_last
SELECT (SELECT sequence FROM log_records WHERE log = 'read' AND tenant = $1 ORDER BY sequence LIMIT 1),
    (SELECT sequence FROM log_records WHERE log = 'read' AND tenant = $1 ORDER BY sequence DESC LIMIT 1);

-- find_time_range
SELECT min(at), max(at) FROM (
    SELECT at FROM log_records WHERE log = 'read' AND tenant = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3) AS it;

-- find_checkpoint
SELECT tenant, sequence, link, at, mac FROM chain_checkpoints WHERE log = 'read' AND tenant = $1;

-- put_checkpoint
INSERT INTO chain_checkpoints (tenant, log, sequence, link, at, mac)
VALUES ($1, 'read', $2, $3, $4, $5)
ON CONFLICT (tenant, log) DO UPDATE SET sequence = $2, link = $3, at = $4, mac = $5;

-- delete_pruned
DELETE FROM log_records WHERE log = 'read' AND tenant = $1 AND sequence <= $2;

-- find_chain_head
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac FROM chain_heads AS it WHERE log = 'read' AND it.tenant = $1;

-- resign_head
UPDATE chain_heads SET mac = $1 WHERE tenant = $2 AND sequence = $3 AND log = 'read';

-- purge_active_tokens
DELETE FROM active_tokens WHERE (tenant, month, token) IN (
    SELECT tenant, month, token FROM active_tokens WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_active_months
DELETE FROM active_months WHERE (tenant, month) IN (
    SELECT tenant, month FROM active_months WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_tokens
DELETE FROM tokens WHERE (tenant, number) IN (
    SELECT tenant, number FROM tokens WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_token_index
DELETE FROM token_index WHERE (tenant, facet, container, created_at, token) IN (
    SELECT tenant, facet, container, created_at, token FROM token_index WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_token_intents
DELETE FROM token_intents WHERE (tenant, id) IN (
    SELECT tenant, id FROM token_intents WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_threeds_sessions
DELETE FROM threeds_sessions WHERE (tenant, id) IN (
    SELECT tenant, id FROM threeds_sessions WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_deliveries
DELETE FROM deliveries WHERE (tenant, webhook, event) IN (
    SELECT tenant, webhook, event FROM deliveries WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- purge_guesses
DELETE FROM guesses WHERE (tenant, bucket, number_digest) IN (
    SELECT tenant, bucket, number_digest FROM guesses WHERE tenant = ANY ($1) LIMIT $2 FOR UPDATE SKIP LOCKED);

-- delete_purged_tenants
DELETE FROM deleted_tenants AS it WHERE deleted_at <= $1 AND id = ANY ($2)
    AND NOT EXISTS (SELECT 1 FROM active_tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM active_months WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM tokens WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_index WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM token_intents WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM threeds_sessions WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM deliveries WHERE tenant = it.id)
    AND NOT EXISTS (SELECT 1 FROM guesses WHERE tenant = it.id);

-- count_versions_in_tokens_body
SELECT substr(body, 3, 4), count(*) FROM tokens WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_token_intents_body
SELECT substr(body, 3, 4), count(*) FROM token_intents WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_threeds_sessions_body
SELECT substr(body, 3, 4), count(*) FROM threeds_sessions WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_deliveries_body
SELECT substr(body, 3, 4), count(*) FROM deliveries WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_idempotency_records_head
SELECT substr(head, 3, 4), count(*) FROM idempotency_records WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_response_token_data_sealed
SELECT substr(sealed, 3, 4), count(*) FROM response_token_data WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_proxies_settings
SELECT substr(settings, 3, 4), count(*) FROM proxies WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_proxies_secrets
SELECT substr(secrets, 3, 4), count(*) FROM proxies WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_webhooks_settings
SELECT substr(settings, 3, 4), count(*) FROM webhooks WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_webhooks_secrets
SELECT substr(secrets, 3, 4), count(*) FROM webhooks WHERE tenant = $1 GROUP BY 1;

-- count_versions_in_client_keys_private_key
SELECT substr(private_key, 3, 4), count(*) FROM client_keys WHERE tenant = $1 GROUP BY 1;

-- list_clock
SELECT now, now, earliest, mac FROM clock_watermark WHERE singleton = 1 AND (now) > ($1) ORDER BY now LIMIT 512;

-- import_clock_watermark
UPDATE clock_watermark SET (now, earliest, mac) = (SELECT it.* FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS it);

-- list_directory_version
SELECT version, version FROM directory_state WHERE singleton = 1 AND (version) > ($1) ORDER BY version LIMIT 512;

-- import_directory_state
UPDATE directory_state SET (version) = (SELECT it.* FROM unnest($1::bigint[]) AS it);

-- list_tenants
SELECT id, id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version FROM tenants WHERE true AND (id) > ($1) ORDER BY id LIMIT 512;

-- import_tenants
INSERT INTO tenants (id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version) SELECT it.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::bigint[], $8::uuid[], $9::bigint[], $10::bigint[], $11::bytea[], $12::bigint[], $13::bytea[], $14::bigint[]) AS it;

-- list_tenant_keys
SELECT tenant, version, tenant, version, wrapped FROM tenant_keys WHERE true AND (tenant, version) > ($1, $2) ORDER BY tenant, version LIMIT 512;

-- import_tenant_keys
INSERT INTO tenant_keys (tenant, version, wrapped) SELECT it.* FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS it;

-- list_permanent_keys
SELECT tenant, tenant, wrapped FROM permanent_keys WHERE true AND (tenant) > ($1) ORDER BY tenant LIMIT 512;

-- import_permanent_keys
INSERT INTO permanent_keys (tenant, wrapped) SELECT it.* FROM unnest($1::uuid[], $2::bytea[]) AS it;

-- list_applications
SELECT tenant, id, tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins FROM applications WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_applications
INSERT INTO applications (tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::uuid[], $7::bigint[], $8::uuid[], $9::bigint[], $10::bytea[], $11::text[]) AS it;

-- list_api_keys
SELECT tenant, application, id, tenant, application, id, digest, created_by, created_at, mac FROM api_keys WHERE true AND (tenant, application, id) > ($1, $2, $3) ORDER BY tenant, application, id LIMIT 512;

-- import_api_keys
INSERT INTO api_keys (tenant, application, id, digest, created_by, created_at, mac) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bytea[], $5::uuid[], $6::bigint[], $7::bytea[]) AS it;

-- list_proxies
SELECT tenant, id, tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac FROM proxies WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_proxies
INSERT INTO proxies (tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::text[], $5::uuid[], $6::bigint[], $7::bigint[], $8::text[], $9::bytea[], $10::bytea[], $11::uuid[], $12::bigint[], $13::uuid[], $14::bigint[], $15::bytea[]) AS it;

-- list_webhooks
SELECT tenant, id, tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac FROM webhooks WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_webhooks
INSERT INTO webhooks (tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::bytea[], $7::bytea[], $8::uuid[], $9::bigint[], $10::uuid[], $11::bigint[], $12::bytea[]) AS it;

-- list_client_keys
SELECT tenant, id, tenant, id, expires_at, private_key, created_by, created_at, mac FROM client_keys WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_client_keys
INSERT INTO client_keys (tenant, id, expires_at, private_key, created_by, created_at, mac) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bytea[], $5::uuid[], $6::bigint[], $7::bytea[]) AS it;

-- list_deleted_tenants
SELECT id, id, deleted_at, mac FROM deleted_tenants WHERE true AND (id) > ($1) ORDER BY id LIMIT 512;

-- import_deleted_tenants
INSERT INTO deleted_tenants (id, deleted_at, mac) SELECT it.* FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) AS it;

-- list_access_sessions
SELECT tenant, digest, tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac FROM access_sessions WHERE true AND (tenant, digest) > ($1, $2) ORDER BY tenant, digest LIMIT 512;

-- import_access_sessions
INSERT INTO access_sessions (tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac) SELECT it.* FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::uuid[], $5::bigint[], $6::bigint[], $7::uuid[], $8::uuid[], $9::bigint[], $10::text[], $11::bytea[]) AS it;

-- list_tokens
SELECT tenant, number, tenant, id, type, fingerprint, containers, created_by, created_at, modified_by, modified_at, expires_at, revision, indexes, body, expressions, duplicate_key, duplicate_read_key FROM tokens WHERE true AND (tenant, number) > ($1, $2) ORDER BY tenant, number LIMIT 512;

-- import_tokens
INSERT INTO tokens (tenant, id, type, fingerprint, containers, created_by, created_at, modified_by, modified_at, expires_at, revision, indexes, body, expressions, duplicate_key, duplicate_read_key, number) SELECT it.* FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::text[], $6::uuid[], $7::bigint[], $8::uuid[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[], $13::bytea[], $14::bytea[], $15::bytea[], $16::bytea[], $17::bigint[]) AS it;

-- list_usage_types
SELECT tenant, type, tenant, type, count, last_created_at FROM usage_types WHERE true AND (tenant, type) > ($1, $2) ORDER BY tenant, type LIMIT 512;

-- import_usage_types
INSERT INTO usage_types (tenant, type, count, last_created_at) SELECT it.* FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::bigint[]) AS it;

-- list_usage_months
SELECT tenant, month, tenant, month, created FROM usage_months WHERE true AND (tenant, month) > ($1, $2) ORDER BY tenant, month LIMIT 512;

-- import_usage_months
INSERT INTO usage_months (tenant, month, created) SELECT it.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS it;

-- list_token_intents
SELECT tenant, id, tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, body FROM token_intents WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_token_intents
INSERT INTO token_intents (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, body) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bytea[], $5::text[], $6::uuid[], $7::bigint[], $8::bigint[], $9::bytea[]) AS it;

-- list_threeds_sessions
SELECT tenant, id, tenant, id, created_by, created_at, deletes_at, revision, token, intent, converted_containers, converted_number_version, converted_mac, body FROM threeds_sessions WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_threeds_sessions
INSERT INTO threeds_sessions (tenant, id, created_by, created_at, deletes_at, revision, token, intent, converted_containers, converted_number_version, converted_mac, body) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::uuid[], $9::text[], $10::uuid[], $11::bytea[], $12::bytea[]) AS it;

-- list_deliveries
SELECT tenant, webhook, event, tenant, webhook, event, event_type, occurred_at, state, pending_since, attempts, first_attempt_at, last_attempt_at, next_at, last_status, last_error, body FROM deliveries WHERE true AND (tenant, webhook, event) > ($1, $2, $3) ORDER BY tenant, webhook, event LIMIT 512;

-- import_deliveries
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, state, pending_since, attempts, first_attempt_at, last_attempt_at, next_at, last_status, last_error, body) SELECT it.* FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::bytea[]) AS it;

-- list_guesses
SELECT tenant, bucket, number_digest, tenant, bucket, number_digest, counted_at, expires_at FROM guesses WHERE true AND (tenant, bucket, number_digest) > ($1, $2, $3) ORDER BY tenant, bucket, number_digest LIMIT 512;

-- import_guesses
INSERT INTO guesses (tenant, bucket, number_digest, counted_at, expires_at) SELECT it.* FROM unnest($1::uuid[], $2::bytea[], $3::bytea[], $4::bigint[], $5::bigint[]) AS it;

-- list_idempotency_records
SELECT created_at, tenant, digest, tenant, digest, created_at, head FROM idempotency_records WHERE true AND (created_at, tenant, digest) > ($1, $2, $3) ORDER BY created_at, tenant, digest LIMIT 512;

-- import_idempotency_records
INSERT INTO idempotency_records (tenant, digest, created_at, head) SELECT it.* FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::bytea[]) AS it;

-- list_response_token_data
SELECT response_token_data.tenant, response_token_data.digest, response_token_data.write_index, response_token_data.tenant, response_token_data.digest, response_token_data.write_index, tokens.id, response_token_data.sealed FROM response_token_data JOIN tokens ON tokens.tenant = response_token_data.tenant AND tokens.number = response_token_data.token WHERE true AND (response_token_data.tenant, response_token_data.digest, response_token_data.write_index) > ($1, $2, $3) ORDER BY response_token_data.tenant, response_token_data.digest, response_token_data.write_index LIMIT 512;

-- import_response_token_data
INSERT INTO response_token_data (tenant, digest, write_index, token, sealed)
    SELECT it.tenant, it.digest, it.write_index, tokens.number, it.sealed
FROM unnest($1::uuid[], $2::bytea[], $3::bigint[], $4::text[], $5::bytea[])
    AS it (tenant, digest, write_index, token, sealed)
    JOIN tokens ON tokens.tenant = it.tenant AND tokens.id = it.token;

-- list_audit_records
SELECT tenant, log, sequence, tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail FROM log_records WHERE log = 'audit' AND (tenant, log, sequence) > ($1, $2, $3) ORDER BY tenant, log, sequence LIMIT 512;

-- import_log_records
INSERT INTO log_records (log, tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail) SELECT 'audit', it.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::uuid[], $12::text[], $13::bigint[], $14::bytea[], $15::text[]) AS it;

-- list_audit_heads
SELECT tenant, log, tenant, sequence, at, link, retention_seconds, mac FROM chain_heads WHERE log = 'audit' AND (tenant, log) > ($1, $2) ORDER BY tenant, log LIMIT 512;

-- import_chain_heads
INSERT INTO chain_heads (log, tenant, sequence, at, link, retention_seconds, mac) SELECT 'audit', it.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[]) AS it;

-- list_audit_checkpoints
SELECT tenant, log, tenant, sequence, link, at, mac FROM chain_checkpoints WHERE log = 'audit' AND (tenant, log) > ($1, $2) ORDER BY tenant, log LIMIT 512;

-- import_chain_checkpoints
INSERT INTO chain_checkpoints (log, tenant, sequence, link, at, mac) SELECT 'audit', it.* FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) AS it;

-- list_vault_state
SELECT key_version, vault_id, key_version FROM vault_state WHERE singleton = 1 AND (key_version) > ($1) ORDER BY key_version LIMIT 512;

-- import_vault_state
INSERT INTO vault_state (singleton, vault_id, key_version) SELECT 1, it.* FROM unnest($1::uuid[], $2::bigint[]) AS it;

-- list_unlocks
SELECT id, id, wrapped, kind, label, parameters, key_version, created_at, checked_at, state, mac FROM unlocks WHERE true AND (id) > ($1) ORDER BY id LIMIT 512;

-- import_unlocks
INSERT INTO unlocks (id, wrapped, kind, label, parameters, key_version, created_at, checked_at, state, mac) SELECT it.* FROM unnest($1::uuid[], $2::bytea[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::bytea[]) AS it;

-- list_read_log_records
SELECT tenant, log, sequence, tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail FROM log_records WHERE log = 'read' AND (tenant, log, sequence) > ($1, $2, $3) ORDER BY tenant, log, sequence LIMIT 512;

-- import_log_records
INSERT INTO log_records (log, tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail) SELECT 'read', it.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::uuid[], $12::text[], $13::bigint[], $14::bytea[], $15::text[]) AS it;

-- list_read_log_heads
SELECT tenant, log, tenant, sequence, at, link, retention_seconds, mac FROM chain_heads WHERE log = 'read' AND (tenant, log) > ($1, $2) ORDER BY tenant, log LIMIT 512;

-- import_chain_heads
INSERT INTO chain_heads (log, tenant, sequence, at, link, retention_seconds, mac) SELECT 'read', it.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bytea[]) AS it;

-- list_read_log_checkpoints
SELECT tenant, log, tenant, sequence, link, at, mac FROM chain_checkpoints WHERE log = 'read' AND (tenant, log) > ($1, $2) ORDER BY tenant, log LIMIT 512;

-- import_chain_checkpoints
INSERT INTO chain_checkpoints (log, tenant, sequence, link, at, mac) SELECT 'read', it.* FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bytea[]) AS it;

-- list_active_tokens
SELECT tenant, month, token, tenant, month, token FROM active_tokens WHERE true AND (tenant, month, token) > ($1, $2, $3) ORDER BY tenant, month, token LIMIT 512;

-- import_active_tokens
INSERT INTO active_tokens (tenant, month, token) SELECT it.* FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS it;

-- list_active_months
SELECT tenant, month, tenant, month, active FROM active_months WHERE true AND (tenant, month) > ($1, $2) ORDER BY tenant, month LIMIT 512;

-- import_active_months
INSERT INTO active_months (tenant, month, active) SELECT it.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS it;

-- list_system_keys
SELECT name, name, wrapped FROM system_keys WHERE true AND (name) > ($1) ORDER BY name LIMIT 512;

-- import_system_keys
INSERT INTO system_keys (name, wrapped) SELECT it.* FROM unnest($1::text[], $2::bytea[]) AS it;
