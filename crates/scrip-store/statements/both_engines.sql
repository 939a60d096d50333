-- Statements that are put together from parts. A test writes this file; see CONTRIBUTING.md.
-- In psql, give the parameters with \bind; in sqlite3, with .parameter set.

-- list_tenants
SELECT id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version
FROM tenants;

-- list_tenants
SELECT id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version
FROM tenants
WHERE id = $1;

-- put_tenant
INSERT INTO tenants (id, name, kind, settings, quotas, created_by, created_at, modified_by, modified_at, deletes_at, mac, policy_counter, policy_mac, sealing_version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
ON CONFLICT (id) DO UPDATE SET name = $2, kind = $3, settings = $4, quotas = $5, created_by = $6, created_at = $7, modified_by = $8, modified_at = $9, deletes_at = $10, mac = $11, sealing_version = $14;

-- delete_tenant
DELETE FROM tenants WHERE id = $1;

-- delete_tenants
DELETE FROM tenants WHERE id = $1;

-- delete_leftover_tenants
DELETE FROM tenants WHERE id = $1;

-- list_applications
SELECT tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins
FROM applications;

-- list_applications
SELECT tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins
FROM applications
WHERE tenant = $1;

-- put_application
INSERT INTO applications (tenant, id, name, kind, access, created_by, created_at, modified_by, modified_at, mac, origins)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (tenant, id) DO UPDATE SET name = $3, kind = $4, access = $5, modified_by = $8, modified_at = $9, mac = $10, origins = $11;

-- delete_application
DELETE FROM applications WHERE tenant = $1 AND id = $2;

-- delete_applications
DELETE FROM applications WHERE tenant = $1;

-- delete_leftover_applications
DELETE FROM applications WHERE tenant = $1;

-- list_api_keys
SELECT tenant, application, id, digest, created_by, created_at, mac
FROM api_keys;

-- list_api_keys
SELECT tenant, application, id, digest, created_by, created_at, mac
FROM api_keys
WHERE tenant = $1;

-- put_api_key
INSERT INTO api_keys (tenant, application, id, digest, created_by, created_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- delete_api_key
DELETE FROM api_keys WHERE tenant = $1 AND id = $2;

-- delete_api_keys
DELETE FROM api_keys WHERE tenant = $1;

-- delete_leftover_api_keys
DELETE FROM api_keys WHERE tenant = $1;

-- find_api_key
SELECT 1 FROM api_keys WHERE (digest = $1) AND (id <> $2 OR tenant <> $3);

-- list_proxies
SELECT tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac
FROM proxies;

-- list_proxies
SELECT tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac
FROM proxies
WHERE tenant = $1;

-- put_proxy
INSERT INTO proxies (tenant, id, digest, name, application, require_auth, disable_detokenization, host, settings, secrets, created_by, created_at, modified_by, modified_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
ON CONFLICT (tenant, id) DO UPDATE SET name = $4, application = $5, require_auth = $6, disable_detokenization = $7, host = $8, settings = $9, secrets = $10, modified_by = $13, modified_at = $14, mac = $15;

-- delete_proxy
DELETE FROM proxies WHERE tenant = $1 AND id = $2;

-- delete_proxies
DELETE FROM proxies WHERE tenant = $1;

-- delete_leftover_proxies
DELETE FROM proxies WHERE tenant = $1;

-- find_proxy
SELECT 1 FROM proxies WHERE (digest = $1 OR host = $2) AND (id <> $3 OR tenant <> $4);

-- list_webhooks
SELECT tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac
FROM webhooks;

-- list_webhooks
SELECT tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac
FROM webhooks
WHERE tenant = $1;

-- put_webhook
INSERT INTO webhooks (tenant, id, name, status, events, settings, secrets, created_by, created_at, modified_by, modified_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (tenant, id) DO UPDATE SET name = $3, status = $4, events = $5, settings = $6, secrets = $7, modified_by = $10, modified_at = $11, mac = $12;

-- delete_webhook
DELETE FROM webhooks WHERE tenant = $1 AND id = $2;

-- delete_webhooks
DELETE FROM webhooks WHERE tenant = $1;

-- delete_leftover_webhooks
DELETE FROM webhooks WHERE tenant = $1;

-- list_client_keys
SELECT tenant, id, expires_at, private_key, created_by, created_at, mac
FROM client_keys;

-- list_client_keys
SELECT tenant, id, expires_at, private_key, created_by, created_at, mac
FROM client_keys
WHERE tenant = $1;

-- put_client_key
INSERT INTO client_keys (tenant, id, expires_at, private_key, created_by, created_at, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7);

-- delete_client_key
DELETE FROM client_keys WHERE tenant = $1 AND id = $2;

-- delete_client_keys
DELETE FROM client_keys WHERE tenant = $1;

-- delete_leftover_client_keys
DELETE FROM client_keys WHERE tenant = $1;

-- list_access_sessions
SELECT tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac
FROM access_sessions;

-- list_access_sessions
SELECT tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac
FROM access_sessions
WHERE tenant = $1;

-- put_access_session
INSERT INTO access_sessions (tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- delete_access_session
DELETE FROM access_sessions WHERE tenant = $1 AND digest = $2;

-- delete_access_sessions
DELETE FROM access_sessions WHERE tenant = $1;

-- delete_leftover_access_sessions
DELETE FROM access_sessions WHERE tenant = $1;

-- find_access_session
SELECT tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac
FROM access_sessions
WHERE digest = $1;

-- find_access_session_by_nonce
SELECT tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac
FROM access_sessions
WHERE tenant = $1 AND nonce = $2;

-- list_access_sessions
SELECT tenant, digest, nonce, application, created_at, expires_at, authorized_by, authorized_key, authorized_at, access, mac
FROM access_sessions
WHERE tenant = $1 AND expires_at > $2 ORDER BY expires_at DESC, digest LIMIT $3;

-- count_tenants
SELECT count(*) FROM tenants;

-- count_applications
SELECT count(*) FROM applications;

-- count_api_keys
SELECT count(*) FROM api_keys;

-- count_proxies
SELECT count(*) FROM proxies;

-- count_webhooks
SELECT count(*) FROM webhooks;

-- count_client_keys
SELECT count(*) FROM client_keys;

-- count_access_sessions
SELECT count(*) FROM access_sessions;

-- count_tokens
SELECT count(*) FROM tokens;

-- count_token_intents
SELECT count(*) FROM token_intents;

-- count_cvcs
SELECT count(*) FROM cvcs;

-- count_threeds_sessions
SELECT count(*) FROM threeds_sessions;

-- count_deliveries
SELECT count(*) FROM deliveries;

-- count_idempotency_records
SELECT count(*) FROM idempotency_records;

-- delete_usage_types
DELETE FROM usage_types WHERE tenant = $1;

-- delete_usage_months
DELETE FROM usage_months WHERE tenant = $1;
