//! What is swept does not wait for whatever else is.

use rusqlite::Connection;
use scrip_testing::process::harness::becomes_true;

use crate::operator::backup::BackupHarness;

/// Each expired token that is removed makes room for the next one.
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
    let outside = Connection::open(harness.process.data().join("scrip.db")).unwrap();
    outside.execute_batch(ENDLESS_EXPIRY_TRIGGER).unwrap();
    outside.execute_batch(INSERT_EXPIRED_INTENT).unwrap();
    let _server = harness.serve();
    let count = |sql: &str| -> i64 { outside.query_row(sql, [], |row| row.get(0)).unwrap() };
    let expired = "SELECT count(*) FROM audit WHERE operation = 'expire_token'";
    assert!(becomes_true(|| count(expired) > 20), "tokens are swept");
    assert!(becomes_true(|| count("SELECT count(*) FROM token_intents") == 0), "intents are swept");
    assert!(count("SELECT count(*) FROM tokens") > 0, "and that has no end");
}
