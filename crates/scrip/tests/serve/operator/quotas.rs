//! Quotas that an operator's command changes count in a server that runs. (Within a second, by how
//! often it looks; here it may take as long as a busy machine does.) That of the logs is about hours,
//! and is tested where the clock can be moved.

use rusqlite::{Connection, OpenFlags};
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::{Value, json};

use crate::process::verification_codes::{send_request, serve_ready};

struct QuotaHarness {
    process: ProcessHarness,
    server: RunningServer,
    key: String,
}

impl QuotaHarness {
    fn open() -> Self {
        let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
        let running = serve_ready(&process);
        Self { process, server: running, key }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        send_request(&self.server, &self.key, "POST", path, body)
    }

    fn set_quota(&self, quota: &str) {
        let tenants = self.process.run(&["tenant", "list", "--json"]);
        let tenants: Value = serde_json::from_slice(&tenants.stdout).unwrap();
        let tenant = tenants["tenants"][0]["id"].as_str().unwrap();
        let output = self.process.run(&["tenant", "quota", "set", tenant, quota]);
        assert!(output.status.success(), "{output:?}");
    }

    #[track_caller]
    fn expect_effect_of(&self, quota: &str, is_applied: impl Fn(&Self) -> bool) {
        assert!(!is_applied(self), "{quota} counts before it is set");
        self.set_quota(quota);
        assert!(becomes_true(|| is_applied(self)), "{quota}");
    }
}

#[test]
fn changed_token_quotas_apply_to_a_running_server() {
    let harness = QuotaHarness::open();
    let six: Vec<_> = (0..6).collect();
    let (status, _) = harness.post("/tokenize", &json!(six));
    assert_eq!(status, 400);
    harness.expect_effect_of("tokenize_limit=6", |it| it.post("/tokenize", &json!(six)).0 == 200);
    let (_, ids) = harness.post("/tokenize", &json!(six));
    harness
        .expect_effect_of("tokenize_limit=1", |it| it.post("/tokenize", &json!([1, 2])).0 == 400);

    let named: Vec<_> = ids
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{{{{ {} }}}}", it.as_str().unwrap()))
        .collect();
    harness.expect_effect_of("detokenize_limit=6", |it| {
        it.post("/detokenize", &json!(named)).0 == 200
    });
    harness.expect_effect_of("detokenize_limit=5", |it| {
        it.post("/detokenize", &json!(named)).0 == 400
    });
}

#[test]
fn changed_retention_quotas_apply_to_a_running_server() {
    let harness = QuotaHarness::open();
    let card = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let kept_ms = |it: &QuotaHarness| {
        let (status, created) = it.post("/tokens", &card);
        assert_eq!(status, 201, "{created}");
        let database = it.process.data().join("scrip.db");
        let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let sql = "SELECT cvcs.expires_at - created_at FROM cvcs JOIN tokens ON seq = token
            WHERE id = ?";
        let id = created["id"].as_str().unwrap();
        database.unwrap().query_row(sql, [id], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(kept_ms(&harness), 60 * 60 * 1000);
    harness.expect_effect_of("cvc_retention=2m", |it| kept_ms(it) == 2 * 60 * 1000);

    let kept_seconds = |it: &QuotaHarness| {
        let (status, created) = it.post("/token-intents", &card);
        assert_eq!(status, 201, "{created}");
        let at = |name: &str| created[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        at("expires_at").duration_since(at("created_at")).as_secs()
    };
    assert_eq!(kept_seconds(&harness), 24 * 60 * 60);
    harness.expect_effect_of("token_intent_retention=3m", |it| kept_seconds(it) == 3 * 60);
}
