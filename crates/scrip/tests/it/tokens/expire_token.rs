//! Expire Token: a background task of the server, without a request.

use std::time::Duration;

use scrip_core::{
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    types::time::Clock,
};
use scrip_testing::{process::harness::becomes_true, requests::with_members};
use serde_json::json;

use crate::harness::server::{TestServer, card_body, unique_card_number};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Polls the condition for a time that is long enough for any machine.

#[test]
fn expired_token_is_deleted_from_disk_with_one_record() {
    let (server, keys) = TestServer::start_with_tenant();
    let expires_at = server.clock.now().plus(HOUR).to_string();
    let body = json!({"id": "short-lived", "type": "token", "data": 1, "expires_at": expires_at});
    server.post_once(&keys.private, "/tokens", "key", &body).expect_status(201);
    server.create_token_ok(&keys.private, &json!({"id": "lasting", "type": "token", "data": 1}));
    let count = |sql: &str| server.engine.query_count(sql);
    // The sweeper of the server may have run first.
    let directory = server.app.directory.load_full().unwrap();
    let delete_expired_tokens =
        || server.runtime.block_on(expire_token(&server.app.vault, &directory)).unwrap();
    delete_expired_tokens();
    assert_eq!(count("SELECT count(*) FROM tokens"), 2);

    server.clock.advance(HOUR);
    server.get_token(&keys.private, "short-lived").expect_status(404);
    delete_expired_tokens();
    assert_eq!(count("SELECT count(*) FROM tokens"), 1);
    assert_eq!(count("SELECT count(*) FROM response_token_data"), 0);
    let record = "SELECT count(*) FROM log_records WHERE operation = 'expire_token' \
        AND entity = 'short-lived' AND actor IS NULL AND actor_kind = 'vault'";
    assert_eq!(count(record), 1);
    server.get_token(&keys.private, "lasting").expect_status(200);
}

/// The key is destroyed on time without a request. The next sweep removes the sealed CVC.
#[test]
fn cvc_key_is_destroyed_on_time() {
    let (server, keys) = TestServer::start_with_tenant();
    let body = with_members(card_body(&unique_card_number()), &json!({"id": "with-cvc"}));
    server.create_token_ok(&keys.private, &body);
    let epochs = &server.app.vault.epoch_keys;
    assert!(epochs.next_expiry_ms().is_some());
    server.clock.advance(HOUR + HOUR / 4);
    assert!(becomes_true(|| epochs.next_expiry_ms().is_none()));
    let directory = server.app.directory.load_full().unwrap();
    server.runtime.block_on(erase_cvcs(&server.app.vault, &directory)).unwrap();
    assert_eq!(server.engine.query_count("SELECT count(*) FROM cvcs"), 0);
    assert_eq!(server.get_token(&keys.private, "with-cvc").json()["data"].get("cvc"), None);
}
