//! The search for the deletion of a tenant in its audit log.

use scrip_core::{
    operations::tenants::recorded_deletion::{RecordedDeletion, find_recorded_deletion},
    policy::TenantSettings,
    types::TenantKind,
};
use serde_json::json;

use crate::harness::server::{TenantApiKeys, TestServer};

fn find(server: &TestServer, keys: &TenantApiKeys, after: i64) -> RecordedDeletion {
    let search = find_recorded_deletion(&server.app.vault, keys.tenant.id, after);
    server.runtime.block_on(search).unwrap()
}

/// More records than the search loads in one step.
const TOKENS: i64 = 1100;

#[test]
fn deletion_is_found_and_altered_records_are_detected_in_a_long_audit_log() {
    let server = TestServer::start();
    let keys = server.create_tenant_of_kind(TenantKind::Production, TenantSettings::default());
    for _ in 0..TOKENS {
        server.create_token_ok(&keys.private, &json!({"type": "token", "data": "x"}));
    }
    assert_eq!(find(&server, &keys, 0), RecordedDeletion::None);
    // A chain that is shorter than the policy requires was cut.
    assert_eq!(find(&server, &keys, 10 * TOKENS), RecordedDeletion::Unknown);

    let tenant = server.engine.sql_id(keys.tenant.id.0);
    let change_time = |milliseconds: i64, sequence: i64| {
        let sql = format!(
            "UPDATE log_records SET at = at + {milliseconds} WHERE tenant = {tenant} \
             AND sequence = {sequence}"
        );
        assert!(server.engine.execute(&sql) > 0);
    };
    // A record of the older step, then one of the newer step.
    for sequence in [20, TOKENS] {
        change_time(1, sequence);
        assert_eq!(find(&server, &keys, 0), RecordedDeletion::Unknown, "{sequence}");
        change_time(-1, sequence);
        assert_eq!(find(&server, &keys, 0), RecordedDeletion::None, "{sequence}");
    }
    // Records before the backup are not searched.
    change_time(1, 20);
    assert_eq!(find(&server, &keys, TOKENS), RecordedDeletion::None);

    server.delete(&keys.management, "/tenants/self").expect_status(204);
    assert!(matches!(find(&server, &keys, 0), RecordedDeletion::Requested(_)));
}

#[test]
fn deletion_without_a_grace_period_is_found_as_completed() {
    let (server, keys) = TestServer::start_with_tenant();
    assert_eq!(find(&server, &keys, 0), RecordedDeletion::None);
    server.delete(&keys.management, "/tenants/self").expect_status(204);
    assert_eq!(find(&server, &keys, 0), RecordedDeletion::Completed);
    // The closed chain proves it too.
    server.engine.execute("DELETE FROM deleted_tenants");
    assert_eq!(find(&server, &keys, 0), RecordedDeletion::Completed);
}
