//! Quotas that an operator's command changes count in a server that runs. (Within a second, by how
//! often it looks; here it may take as long as a busy machine does.) That of the logs is about hours,
//! and is tested where the clock can be moved.

use rusqlite::{Connection, OpenFlags};
use scrip_testing::process::harness::{ProcessHarness, Running, eventually};
use serde_json::{Value, json};

use crate::process::verification_codes::{ask, opened};

struct Scene {
    house: ProcessHarness,
    running: Running,
    key: String,
}

impl Scene {
    fn open() -> Self {
        let (house, key) = ProcessHarness::with_key(crate::SCRIP);
        let running = opened(&house);
        Self { house, running, key }
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        ask(&self.running, &self.key, "POST", path, body)
    }

    fn set(&self, quota: &str) {
        let tenants = self.house.run(&["tenant", "list", "--json"]);
        let tenants: Value = serde_json::from_slice(&tenants.stdout).unwrap();
        let tenant = tenants["tenants"][0]["id"].as_str().unwrap();
        let output = self.house.run(&["tenant", "quota", "set", tenant, quota]);
        assert!(output.status.success(), "{output:?}");
    }

    #[track_caller]
    fn soon(&self, quota: &str, what: impl Fn(&Self) -> bool) {
        assert!(!what(self), "{quota} counts before it is set");
        self.set(quota);
        assert!(eventually(|| what(self)), "{quota}");
    }
}

#[test]
fn how_many_tokens_a_request_makes_or_names() {
    let scene = Scene::open();
    let six: Vec<_> = (0..6).collect();
    let (status, _) = scene.post("/tokenize", &json!(six));
    assert_eq!(status, 400);
    scene.soon("tokenize_limit=6", |it| it.post("/tokenize", &json!(six)).0 == 200);
    let (_, ids) = scene.post("/tokenize", &json!(six));
    scene.soon("tokenize_limit=1", |it| it.post("/tokenize", &json!([1, 2])).0 == 400);

    let named: Vec<_> = ids
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{{{{ {} }}}}", it.as_str().unwrap()))
        .collect();
    scene.soon("detokenize_limit=6", |it| it.post("/detokenize", &json!(named)).0 == 200);
    scene.soon("detokenize_limit=5", |it| it.post("/detokenize", &json!(named)).0 == 400);
}

#[test]
fn how_long_codes_and_intents_are_kept() {
    let scene = Scene::open();
    let card = json!({"type": "card", "data": {"number": "4242424242424242", "cvc": "123"}});
    let kept_ms = |it: &Scene| {
        let (status, made) = it.post("/tokens", &card);
        assert_eq!(status, 201, "{made}");
        let database = it.house.data().join("scrip.db");
        let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let sql = "SELECT cvcs.expires_at - created_at FROM cvcs JOIN tokens ON seq = token
            WHERE id = ?";
        let id = made["id"].as_str().unwrap();
        database.unwrap().query_row(sql, [id], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(kept_ms(&scene), 60 * 60 * 1000);
    scene.soon("cvc_retention=2m", |it| kept_ms(it) == 2 * 60 * 1000);

    let kept_seconds = |it: &Scene| {
        let (status, made) = it.post("/token-intents", &card);
        assert_eq!(status, 201, "{made}");
        let at = |name: &str| made[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        at("expires_at").duration_since(at("created_at")).as_secs()
    };
    assert_eq!(kept_seconds(&scene), 24 * 60 * 60);
    scene.soon("token_intent_retention=3m", |it| kept_seconds(it) == 3 * 60);
}
