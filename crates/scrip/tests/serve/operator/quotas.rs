//! Quota changes by an operator command apply to a running server. The server polls every second,
//! but the tests allow for a busy machine. Log retention is counted in hours and is tested with a
//! movable clock.

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
        let server = serve_ready(&process);
        Self { process, server, key }
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
        assert!(!is_applied(self), "{quota} applies before it is set");
        self.set_quota(quota);
        assert!(becomes_true(|| is_applied(self)), "{quota}");
    }
}

#[test]
fn changed_token_quotas_apply_to_a_running_server() {
    let harness = QuotaHarness::open();
    let six_values: Vec<_> = (0..6).collect();
    let (status, _) = harness.post("/tokenize", &json!(six_values));
    assert_eq!(status, 400);
    harness.expect_effect_of("tokenize_limit=6", |it| {
        it.post("/tokenize", &json!(six_values)).0 == 200
    });
    let (_, ids) = harness.post("/tokenize", &json!(six_values));
    harness
        .expect_effect_of("tokenize_limit=1", |it| it.post("/tokenize", &json!([1, 2])).0 == 400);

    let expressions: Vec<_> = ids
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{{{{ {} }}}}", it.as_str().unwrap()))
        .collect();
    harness.expect_effect_of("detokenize_limit=6", |it| {
        it.post("/detokenize", &json!(expressions)).0 == 200
    });
    harness.expect_effect_of("detokenize_limit=5", |it| {
        it.post("/detokenize", &json!(expressions)).0 == 400
    });
}

#[test]
fn changed_retention_quotas_apply_to_a_running_server() {
    let harness = QuotaHarness::open();
    let card = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let measure_cvc_retention_ms = |it: &QuotaHarness| {
        let (status, created) = it.post("/tokens", &card);
        assert_eq!(status, 201, "{created}");
        let database = it.process.data().join("scrip.db");
        let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let sql = "SELECT cvcs.expires_at - created_at FROM cvcs JOIN tokens ON seq = token
            WHERE id = ?";
        let id = created["id"].as_str().unwrap();
        database.unwrap().query_row(sql, [id], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(measure_cvc_retention_ms(&harness), 60 * 60 * 1000);
    harness
        .expect_effect_of("cvc_retention=2m", |it| measure_cvc_retention_ms(it) == 2 * 60 * 1000);

    let measure_intent_retention_seconds = |it: &QuotaHarness| {
        let (status, created) = it.post("/token-intents", &card);
        assert_eq!(status, 201, "{created}");
        let parse_time =
            |name: &str| created[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        parse_time("expires_at").duration_since(parse_time("created_at")).as_secs()
    };
    assert_eq!(measure_intent_retention_seconds(&harness), 24 * 60 * 60);
    harness.expect_effect_of("token_intent_retention=3m", |it| {
        measure_intent_retention_seconds(it) == 3 * 60
    });
}
