-- Statements that are put together from parts. A test writes this file; see CONTRIBUTING.md.
-- In psql, give the parameters with \bind; in sqlite3, with .parameter set.

-- find_token
SELECT tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq
WHERE tokens.tenant = $1 AND tokens.id = $2
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3);

-- find_duplicate
SELECT tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq
WHERE tokens.tenant = $1 AND tokens.duplicate_key = $2
    AND ifnull(tokens.expires_at, 9223372036854775807) > $3 AND tokens.id <> $4
ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.seq LIMIT 1;

-- find_duplicate_to_read
SELECT tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq
WHERE tokens.tenant = $1 AND tokens.duplicate_read_key = $2
    AND ifnull(tokens.expires_at, 9223372036854775807) > $3 AND tokens.id <> $4
ORDER BY ifnull(tokens.expires_at, 9223372036854775807) DESC, tokens.created_at, tokens.seq LIMIT 1;

-- find_token_by_number
SELECT tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq
WHERE tokens.seq = $1 AND tokens.tenant = $2
    AND (tokens.expires_at IS NULL OR tokens.expires_at > $3);

-- find_expired_token
SELECT tokens.seq, tokens.id, tokens.type, tokens.fingerprint, tokens.containers,
    tokens.created_by, tokens.created_at, tokens.modified_by, tokens.modified_at,
    tokens.expires_at, tokens.revision, tokens.indexes, tokens.body, tokens.expressions,
    cvcs.expires_at, cvcs.sealed
FROM tokens LEFT JOIN cvcs ON cvcs.token = tokens.seq
WHERE tokens.seq = $1;

-- list_heads
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac FROM chain_heads AS it WHERE true ORDER BY it.tenant;

-- list_chains
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac, (SELECT min(at) FROM (
    SELECT * FROM (SELECT at FROM log_records WHERE true AND tenant = it.tenant ORDER BY sequence LIMIT 1) AS first
    UNION ALL SELECT * FROM (
        SELECT at FROM log_records WHERE true AND tenant = it.tenant AND actor_kind <> 'operator'
        ORDER BY sequence LIMIT 1) AS first_of_others) AS oldest)
FROM chain_heads AS it WHERE true ORDER BY it.tenant;

-- list_checkpoints
SELECT tenant, sequence, link, at, mac FROM chain_checkpoints WHERE true ORDER BY tenant;

-- list_all_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE true ORDER BY tenant, sequence;

-- list_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE true AND tenant = $1 AND sequence > $2 ORDER BY sequence LIMIT $3;

-- scan_records
SELECT tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, detail, link FROM log_records WHERE true AND tenant = $1 AND sequence >= $2 AND sequence < $3
ORDER BY sequence DESC LIMIT $4;

-- find_first_and_last
SELECT (SELECT sequence FROM log_records WHERE true AND tenant = $1 ORDER BY sequence LIMIT 1),
    (SELECT sequence FROM log_records WHERE true AND tenant = $1 ORDER BY sequence DESC LIMIT 1);

-- find_time_range
SELECT min(at), max(at) FROM (
    SELECT at FROM log_records WHERE true AND tenant = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3) AS it;

-- find_checkpoint
SELECT tenant, sequence, link, at, mac FROM chain_checkpoints WHERE true AND tenant = $1;

-- put_checkpoint
INSERT INTO chain_checkpoints (tenant, sequence, link, at, mac)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (tenant) DO UPDATE SET sequence = $2, link = $3, at = $4, mac = $5;

-- delete_pruned
DELETE FROM log_records WHERE true AND tenant = $1 AND sequence <= $2;

-- find_chain_head
SELECT it.tenant, it.sequence, it.at, it.link, it.retention_seconds, it.mac FROM chain_heads AS it WHERE true AND it.tenant = $1;

-- resign_head
UPDATE chain_heads SET mac = $1 WHERE tenant = $2 AND sequence = $3 AND true;

-- delete_leftover_tenant_keys
DELETE FROM tenant_keys WHERE tenant = $1;

-- delete_leftover_permanent_keys
DELETE FROM permanent_keys WHERE tenant = $1;

-- delete_leftover_key_rotations
DELETE FROM key_rotations WHERE tenant = $1;

-- purge_tokens
DELETE FROM tokens WHERE (seq) IN (
    SELECT seq FROM tokens WHERE tenant = $1 LIMIT $2);

-- purge_token_index
DELETE FROM token_index WHERE (tenant, facet, container, created_at, token) IN (
    SELECT tenant, facet, container, created_at, token FROM token_index WHERE tenant = $1 LIMIT $2);

-- purge_token_intents
DELETE FROM token_intents WHERE (seq) IN (
    SELECT seq FROM token_intents WHERE tenant = $1 LIMIT $2);

-- purge_threeds_sessions
DELETE FROM threeds_sessions WHERE (seq) IN (
    SELECT seq FROM threeds_sessions WHERE tenant = $1 LIMIT $2);

-- purge_deliveries
DELETE FROM deliveries WHERE (seq) IN (
    SELECT seq FROM deliveries WHERE tenant = $1 LIMIT $2);

-- purge_guesses
DELETE FROM guesses WHERE (tenant, bucket, number_digest) IN (
    SELECT tenant, bucket, number_digest FROM guesses WHERE tenant = $1 LIMIT $2);

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
SELECT substr(sealed, 3, 4), count(*) FROM response_token_data WHERE record IN (SELECT seq FROM idempotency_records WHERE tenant = $1) GROUP BY 1;

-- count_versions_in_read_deliveries_body
SELECT substr(body, 3, 4), count(*) FROM read_deliveries WHERE tenant = $1 GROUP BY 1;

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
SELECT singleton, now, earliest, mac FROM clock_watermark WHERE true AND (singleton) > ($1) ORDER BY singleton LIMIT 512;

-- import_clock_watermark
INSERT INTO clock_watermark (singleton, now, earliest, mac) VALUES (1, $1, $2, $3);

-- list_directory_version
SELECT singleton, version FROM directory_state WHERE true AND (singleton) > ($1) ORDER BY singleton LIMIT 512;

-- import_directory_state
INSERT INTO directory_state (singleton, version) VALUES (1, $1);

-- list_tenants
SELECT id, id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version FROM tenants WHERE true AND (id) > ($1) ORDER BY id LIMIT 512;

-- import_tenants
INSERT INTO tenants (id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- list_tenant_keys
SELECT tenant, version, tenant, version, wrapped FROM tenant_keys WHERE true AND (tenant, version) > ($1, $2) ORDER BY tenant, version LIMIT 512;

-- import_tenant_keys
INSERT INTO tenant_keys (padding, tenant, version, wrapped) VALUES (zeroblob(1024), $1, $2, $3);

-- list_permanent_keys
SELECT tenant, tenant, wrapped FROM permanent_keys WHERE true AND (tenant) > ($1) ORDER BY tenant LIMIT 512;

-- import_permanent_keys
INSERT INTO permanent_keys (padding, tenant, wrapped) VALUES (zeroblob(1024), $1, $2);

-- list_applications
SELECT tenant, id, tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins FROM applications WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_applications
INSERT INTO applications (tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- list_api_keys
SELECT tenant, application, id, tenant, application, id, digest, created_by, created_at, mac FROM api_keys WHERE true AND (tenant, application, id) > ($1, $2, $3) ORDER BY tenant, application, id LIMIT 512;

-- import_api_keys
INSERT INTO api_keys (tenant, application, id, digest, created_by, created_at, mac) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- list_proxies
SELECT tenant, id, tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac FROM proxies WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_proxies
INSERT INTO proxies (tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- list_webhooks
SELECT tenant, id, tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac FROM webhooks WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_webhooks
INSERT INTO webhooks (tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- list_client_keys
SELECT tenant, id, tenant, id, expires_at, private_key, created_by, created_at, mac FROM client_keys WHERE true AND (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT 512;

-- import_client_keys
INSERT INTO client_keys (tenant, id, expires_at, private_key, created_by, created_at, mac) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- list_deleted_tenants
SELECT id, id, deleted_at, mac FROM deleted_tenants WHERE true AND (id) > ($1) ORDER BY id LIMIT 512;

-- import_deleted_tenants
INSERT INTO deleted_tenants (id, deleted_at, mac) VALUES ($1, $2, $3);

-- list_access_sessions
SELECT seq, tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac FROM access_sessions WHERE true AND (seq) > ($1) ORDER BY seq LIMIT 512;

-- import_access_sessions
INSERT INTO access_sessions (tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- list_tokens
SELECT seq, tenant, id, type, fingerprint, containers, created_by, created_at, modified_by, modified_at, expires_at, revision, indexes, body, expressions, duplicate_key, duplicate_read_key FROM tokens WHERE true AND (seq) > ($1) ORDER BY seq LIMIT 512;

-- import_tokens
INSERT INTO tokens (tenant, id, type, fingerprint, containers, created_by, created_at, modified_by, modified_at, expires_at, revision, indexes, body, expressions, duplicate_key, duplicate_read_key, seq) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17);

-- list_usage_types
SELECT tenant, type, tenant, type, count, last_created_at FROM usage_types WHERE true AND (tenant, type) > ($1, $2) ORDER BY tenant, type LIMIT 512;

-- import_usage_types
INSERT INTO usage_types (tenant, type, count, last_created_at) VALUES ($1, $2, $3, $4);

-- list_usage_months
SELECT month, tenant, tenant, month, created FROM usage_months WHERE true AND (month, tenant) > ($1, $2) ORDER BY month, tenant LIMIT 512;

-- import_usage_months
INSERT INTO usage_months (tenant, month, created) VALUES ($1, $2, $3);

-- list_token_intents
SELECT seq, tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, body FROM token_intents WHERE true AND (seq) > ($1) ORDER BY seq LIMIT 512;

-- import_token_intents
INSERT INTO token_intents (tenant, id, type, fingerprint, containers, created_by, created_at, expires_at, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- list_threeds_sessions
SELECT seq, tenant, id, created_by, created_at, deletes_at, revision, token, intent, converted_containers, converted_number_version, converted_mac, body FROM threeds_sessions WHERE true AND (seq) > ($1) ORDER BY seq LIMIT 512;

-- import_threeds_sessions
INSERT INTO threeds_sessions (tenant, id, created_by, created_at, deletes_at, revision, token, intent, converted_containers, converted_number_version, converted_mac, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12);

-- list_deliveries
SELECT tenant, webhook, event, tenant, webhook, event, event_type, occurred_at, state, pending_since, attempts, first_attempt_at, last_attempt_at, next_at, last_status, last_error, body FROM deliveries WHERE true AND (tenant, webhook, event) > ($1, $2, $3) ORDER BY tenant, webhook, event LIMIT 512;

-- import_deliveries
INSERT INTO deliveries (tenant, webhook, event, event_type, occurred_at, state, pending_since, attempts, first_attempt_at, last_attempt_at, next_at, last_status, last_error, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14);

-- list_guesses
SELECT tenant, bucket, number_digest, tenant, bucket, number_digest, counted_at, expires_at FROM guesses WHERE true AND (tenant, bucket, number_digest) > ($1, $2, $3) ORDER BY tenant, bucket, number_digest LIMIT 512;

-- import_guesses
INSERT INTO guesses (tenant, bucket, number_digest, counted_at, expires_at) VALUES ($1, $2, $3, $4, $5);

-- list_idempotency_records
SELECT seq, tenant, digest, created_at, head FROM idempotency_records WHERE true AND (seq) > ($1) ORDER BY seq LIMIT 512;

-- import_idempotency_records
INSERT INTO idempotency_records (tenant, digest, created_at, head) VALUES ($1, $2, $3, $4);

-- list_response_token_data
SELECT response_token_data.record, response_token_data.write_index, idempotency_records.tenant, idempotency_records.digest, response_token_data.write_index, tokens.id, response_token_data.sealed FROM response_token_data CROSS JOIN idempotency_records ON idempotency_records.seq = response_token_data.record CROSS JOIN tokens ON tokens.seq = response_token_data.token WHERE true AND (response_token_data.record, response_token_data.write_index) > ($1, $2) ORDER BY response_token_data.record, response_token_data.write_index LIMIT 512;

-- import_response_token_data
INSERT INTO response_token_data (record, write_index, token, sealed)
    SELECT idempotency_records.seq, ?3, tokens.seq, ?5
FROM idempotency_records JOIN tokens ON tokens.tenant = ?1 AND tokens.id = ?4
WHERE idempotency_records.digest = ?2 AND idempotency_records.tenant = ?1;

-- list_audit_records
SELECT tenant, sequence, tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail FROM log_records WHERE true AND (tenant, sequence) > ($1, $2) ORDER BY tenant, sequence LIMIT 512;

-- import_log_records
INSERT INTO log_records (tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- list_audit_heads
SELECT tenant, tenant, sequence, at, link, retention_seconds, mac FROM chain_heads WHERE true AND (tenant) > ($1) ORDER BY tenant LIMIT 512;

-- import_chain_heads
INSERT INTO chain_heads (tenant, sequence, at, link, retention_seconds, mac) VALUES ($1, $2, $3, $4, $5, $6);

-- list_audit_checkpoints
SELECT tenant, tenant, sequence, link, at, mac FROM chain_checkpoints WHERE true AND (tenant) > ($1) ORDER BY tenant LIMIT 512;

-- import_chain_checkpoints
INSERT INTO chain_checkpoints (tenant, sequence, link, at, mac) VALUES ($1, $2, $3, $4, $5);

-- list_vault_state
SELECT singleton, vault_id, key_version FROM vault_state WHERE true AND (singleton) > ($1) ORDER BY singleton LIMIT 512;

-- import_vault_state
INSERT INTO vault_state (singleton, vault_id, key_version) VALUES (1, $1, $2);

-- list_unlocks
SELECT id, id, wrapped, kind, label, parameters, key_version, created_at, checked_at, state, mac FROM unlocks WHERE true AND (id) > ($1) ORDER BY id LIMIT 512;

-- import_unlocks
INSERT INTO unlocks (padding, id, wrapped, kind, label, parameters, key_version, created_at, checked_at, state, mac) VALUES (zeroblob(1024), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- list_read_log_records
SELECT tenant, sequence, tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail FROM log_records WHERE true AND (tenant, sequence) > ($1, $2) ORDER BY tenant, sequence LIMIT 512;

-- import_log_records
INSERT OR IGNORE INTO log_records (tenant, sequence, at, actor_kind, actor, operation, entity, outcome, trace, address, api_key, os_user, repeats, link, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- list_read_log_heads
SELECT tenant, tenant, sequence, at, link, retention_seconds, mac FROM chain_heads WHERE true AND (tenant) > ($1) ORDER BY tenant LIMIT 512;

-- import_chain_heads
INSERT OR IGNORE INTO chain_heads (tenant, sequence, at, link, retention_seconds, mac) VALUES ($1, $2, $3, $4, $5, $6);

-- list_read_log_checkpoints
SELECT tenant, tenant, sequence, link, at, mac FROM chain_checkpoints WHERE true AND (tenant) > ($1) ORDER BY tenant LIMIT 512;

-- import_chain_checkpoints
INSERT OR IGNORE INTO chain_checkpoints (tenant, sequence, link, at, mac) VALUES ($1, $2, $3, $4, $5);

-- list_active_tokens
SELECT month, tenant, token, tenant, month, token FROM active_tokens WHERE true AND (month, tenant, token) > ($1, $2, $3) ORDER BY month, tenant, token LIMIT 512;

-- import_active_tokens
INSERT OR IGNORE INTO active_tokens (tenant, month, token) VALUES ($1, $2, $3);

-- list_active_months
SELECT month, tenant, tenant, month, active FROM active_months WHERE true AND (month, tenant) > ($1, $2) ORDER BY month, tenant LIMIT 512;

-- import_active_months
INSERT OR IGNORE INTO active_months (tenant, month, active) VALUES ($1, $2, $3);

-- list_system_keys
SELECT name, name, wrapped FROM system_keys WHERE true AND (name) > ($1) ORDER BY name LIMIT 512;

-- import_system_keys
INSERT INTO system_keys (name, wrapped) VALUES ($1, $2);
