//! Expire Token: by the background work of a server, with nobody asking.

use std::{thread::sleep, time::Duration};

use scrip_core::{
    operations::tokens::expire_token::{erase_cvcs, expire_token},
    policy::Settings,
    time::Clock,
};
use serde_json::json;

use crate::harness::server::{Server, card, new_number};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// In a time that is long for any machine.
fn eventually(mut what: impl FnMut() -> bool) -> bool {
    (0..1000).any(|_| {
        sleep(Duration::from_millis(20));
        what()
    })
}

#[test]
fn an_expired_token_leaves_the_disk_and_one_record() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let ends = server.clock.now().after(HOUR).to_string();
    let body = json!({"id": "short-lived", "type": "token", "data": 1, "expires_at": ends});
    let create = server.ask("POST", "/tokens").key(&keys.private).json(&body).once("key");
    create.send().is(201);
    server.created(&keys.private, &json!({"id": "lasting", "type": "token", "data": 1}));
    let count = |sql: &str| server.engine.count(sql);
    // The server's own sweeper may have been there first.
    let sweep = || server.runtime.block_on(expire_token(&server.app.vault)).unwrap();
    sweep();
    assert_eq!(count("SELECT count(*) FROM tokens"), 2);

    server.clock.advance(HOUR);
    server.get(&keys.private, "short-lived").is(404);
    sweep();
    assert_eq!(count("SELECT count(*) FROM tokens"), 1);
    assert_eq!(count("SELECT count(*) FROM answer_data"), 0);
    let record = "SELECT count(*) FROM audit WHERE operation = 'expire_token' \
        AND entity = 'short-lived' AND actor IS NULL AND actor_kind = 'vault'";
    assert_eq!(count(record), 1);
    server.get(&keys.private, "lasting").is(200);
}

/// The key goes by itself and on time; the sealed code with the next sweep.
#[test]
fn the_key_of_a_code_is_destroyed_by_a_timer() {
    let server = Server::start();
    let keys = server.tenant(Settings::default());
    let mut body = card(&new_number());
    body["id"] = json!("with-cvc");
    server.created(&keys.private, &body);
    let epochs = &server.app.vault.epochs;
    assert!(epochs.next_end_ms().is_some());
    server.clock.advance(HOUR + HOUR / 4);
    assert!(eventually(|| epochs.next_end_ms().is_none()));
    server.runtime.block_on(erase_cvcs(&server.app.vault)).unwrap();
    assert_eq!(server.engine.count("SELECT count(*) FROM cvcs"), 0);
    assert_eq!(server.get(&keys.private, "with-cvc").json()["data"].get("cvc"), None);
}
