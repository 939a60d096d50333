//! Sweepers do not wait for each other.

use rusqlite::Connection;
use scrip_testing::process::harness::becomes_true;

use crate::operator::backup::BackupHarness;

/// Each deleted expired token inserts another one.
const ENDLESS_EXPIRY_TRIGGER: &str = "CREATE TRIGGER endless AFTER DELETE ON tokens BEGIN
    INSERT INTO tokens VALUES (OLD.seq, OLD.tenant, OLD.id, OLD.type, OLD.fingerprint,
        OLD.expressions, OLD.containers, OLD.created_by, OLD.created_at, OLD.modified_by, OLD.modified_at,
        OLD.expires_at, OLD.revision, OLD.indexes, OLD.body,
        OLD.duplicate_key, OLD.duplicate_read_key);
    END;
    UPDATE tokens SET expires_at = 1";

const INSERT_EXPIRED_INTENT: &str = "INSERT INTO token_intents
    SELECT 1, tenant, zeroblob(16), type, NULL, '/', created_by, created_at, 1, x'00' FROM tokens LIMIT 1";

#[test]
fn token_intents_are_swept_while_token_sweeping_never_ends() {
    let harness = BackupHarness::new();
    let server = harness.serve();
    BackupHarness::create_token(&mut harness.client(&server), 0);
    drop(server);
    let database = Connection::open(harness.process.data().join("scrip.db")).unwrap();
    database.execute_batch(ENDLESS_EXPIRY_TRIGGER).unwrap();
    database.execute_batch(INSERT_EXPIRED_INTENT).unwrap();
    let _server = harness.serve();
    let count = |sql: &str| -> i64 { database.query_row(sql, [], |row| row.get(0)).unwrap() };
    let expired_statement = "SELECT count(*) FROM log_records WHERE operation = 'expire_token'";
    assert!(becomes_true(|| count(expired_statement) > 20), "expired tokens are not swept");
    let is_swept = becomes_true(|| count("SELECT count(*) FROM token_intents") == 0);
    assert!(is_swept, "expired intents are not swept");
    let tokens = count("SELECT count(*) FROM tokens") > 0;
    assert!(tokens, "the token sweep ended, so this test proves nothing");
}
