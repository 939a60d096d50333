//! What is swept does not wait for whatever else is.

use rusqlite::Connection;
use scrip_testing::process::harness::eventually;

use crate::operator::backup::Scene;

/// Each expired token that is removed makes room for the next one.
const ENDLESS: &str = "CREATE TRIGGER endless AFTER DELETE ON tokens BEGIN
    INSERT INTO tokens VALUES (OLD.seq, OLD.tenant, OLD.id, OLD.type, OLD.fingerprint,
        OLD.expressions, OLD.containers, OLD.created_by, OLD.created_at, OLD.modified_by, OLD.modified_at,
        OLD.expires_at, OLD.revision, OLD.indexes, OLD.body,
        OLD.duplicate_key, OLD.duplicate_read_key);
    END;
    UPDATE tokens SET expires_at = 1";

const INTENT: &str = "INSERT INTO token_intents
    SELECT 1, tenant, zeroblob(16), type, NULL, '/', created_by, created_at, 1, x'00' FROM tokens LIMIT 1";

#[test]
fn token_intents_expire_while_tokens_do_all_the_time() {
    let scene = Scene::new();
    let server = scene.serve();
    Scene::create(&mut scene.client(&server), 0);
    drop(server);
    let outside = Connection::open(scene.house.data().join("scrip.db")).unwrap();
    outside.execute_batch(ENDLESS).unwrap();
    outside.execute_batch(INTENT).unwrap();
    let _server = scene.serve();
    let count = |sql: &str| -> i64 { outside.query_row(sql, [], |row| row.get(0)).unwrap() };
    let expired = "SELECT count(*) FROM audit WHERE operation = 'expire_token'";
    assert!(eventually(|| count(expired) > 20), "tokens are swept");
    assert!(eventually(|| count("SELECT count(*) FROM token_intents") == 0), "intents are swept");
    assert!(count("SELECT count(*) FROM tokens") > 0, "and that has no end");
}
