//! The guessing budget: how many numbers of one group a caller without a reveal right may try.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    operations::tenants::update_tenant::set_tenant_quotas,
    policy::{
        AccessPolicy,
        ApplicationKind::{Private, Public},
        Mandate,
        Permission::{TokenCreate, TokenIntentCreate, TokenRead, TokenSearch, TokenUpdate},
        Permissions, Quotas, Settings, TenantKind,
        Transform::{Mask, Reveal},
        tenant::quota::Limit,
    },
};
use serde_json::{Value, json};

use crate::harness::server::{Keys, Server, grant, text};

fn luhn_sum(number: &str) -> u32 {
    let weigh = |(at, digit): (usize, u8)| {
        let digit = u32::from(digit - b'0');
        if at % 2 == 0 { digit } else { digit * 2 / 10 + digit * 2 % 10 }
    };
    number.bytes().rev().enumerate().map(weigh).sum()
}

/// Card numbers that a masked reader cannot tell apart.
pub(crate) fn lookalikes(first: &str, count: usize) -> Vec<String> {
    let numbers = (0..1_000_000_u32).map(|it| format!("{first}{it:06}1111"));
    numbers.filter(|it| luhn_sum(it).is_multiple_of(10)).take(count).collect()
}

pub(crate) fn card(number: &str) -> Value {
    json!({"type": "card", "data": {"number": number}})
}

pub(crate) struct LimitsHarness {
    pub(crate) server: Server,
    pub(crate) keys: Keys,
    /// A backend with plain permissions: it sees masks.
    pub(crate) masked: String,
}

impl LimitsHarness {
    pub(crate) fn new(kind: TenantKind) -> Self {
        Self::with(kind, Settings::default())
    }

    fn with(kind: TenantKind, settings: Settings) -> Self {
        let server = Server::start();
        let keys = server.tenant_of(kind, settings);
        let all = [TokenCreate, TokenRead, TokenUpdate, TokenSearch, TokenIntentCreate];
        let masked = server.permissions(&keys.tenant, Private, &all);
        Self { server, keys, masked }
    }

    fn quotas(&self, edit: impl FnOnce(Quotas) -> Quotas + Send + 'static) {
        let mandate = Mandate::of_operator(Arc::clone(&self.keys.tenant));
        self.server.runtime.block_on(async {
            set_tenant_quotas(&self.server.app.vault, mandate, Box::new(edit)).await.unwrap();
            self.server.app.reload().await.unwrap();
        });
    }

    fn fingerprint(&self, key: &str, number: &str) -> Value {
        self.server.created(key, &card(number))["fingerprint"].clone()
    }

    fn spend(&self, key: &str, numbers: &[String]) {
        for number in numbers {
            assert!(self.fingerprint(key, number).is_string(), "within the budget");
        }
    }

    pub(crate) fn flush(&self) {
        let vault = &self.server.app.vault;
        let flushed = vault.guesses.flush(&*vault.store, vault.clock.now());
        self.server.runtime.block_on(flushed).unwrap();
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn the_21st_number_of_a_group_gets_no_fingerprint_and_neither_does_a_repeat() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let public = scene.keys.public.clone();
    let numbers = lookalikes("411111", 21);
    let (last, first) = numbers.split_last().unwrap();
    scene.spend(&public, first);
    assert_eq!(scene.fingerprint(&public, last), Value::Null, "the 21st");
    assert_eq!(scene.fingerprint(&public, &first[0]), Value::Null, "a repeat of the first");
    assert!(scene.fingerprint(&public, &lookalikes("422222", 1)[0]).is_string(), "another group");
    scene.server.clock.advance(DAY);
    assert!(scene.fingerprint(&public, last).is_string(), "the window has moved on");
}

#[test]
fn forty_numbers_of_a_group_in_90_days_spend_the_budget() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 41);
    scene.spend(&scene.masked, &numbers[..20]);
    scene.server.clock.advance(DAY);
    scene.spend(&scene.masked, &numbers[20..40]);
    scene.server.clock.advance(DAY);
    assert_eq!(scene.fingerprint(&scene.masked, &numbers[40]), Value::Null);
    scene.server.clock.advance(DAY * 89);
    assert!(scene.fingerprint(&scene.masked, &numbers[40]).is_string());
}

#[test]
fn spent_public_budget_leaves_the_backend_its_own() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 21);
    scene.spend(&scene.keys.public, &numbers[..20]);
    assert_eq!(scene.fingerprint(&scene.keys.public, &numbers[20]), Value::Null);
    assert!(scene.fingerprint(&scene.masked, &numbers[20]).is_string());
    scene.spend(&scene.keys.private, &numbers);
}

#[test]
fn callers_with_a_reveal_right_are_not_counted() {
    let scene = LimitsHarness::new(TenantKind::Production);
    scene.spend(&scene.keys.private, &lookalikes("411111", 45));
    assert_eq!(scene.server.rows(&scene.keys.tenant, "guesses"), 0);
}

fn own_card(number: &str) -> Value {
    json!({"type": "card", "data": {"number": number}, "containers": ["/own/"]})
}

/// Creates one token more in `/own/` than the budget allows. Fingerprints are the same in all
/// containers of a tenant.
#[track_caller]
fn check_counted_in_own_container(scene: &LimitsHarness, key: &str) {
    let numbers = lookalikes("411111", 21);
    for (at, number) in numbers.iter().enumerate() {
        let made = scene.server.created(key, &own_card(number));
        assert_eq!(made["fingerprint"].is_string(), at < 20, "number {at}");
    }
}

#[test]
fn reveal_right_on_one_container_lifts_no_budget_of_a_caller_that_sees_masks_elsewhere() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let own = grant("/own/", Reveal, &[TokenCreate, TokenRead]);
    let rules = vec![own, grant("/pci/", Mask, &[TokenRead])];
    let key = scene.server.rules(&scene.keys.tenant, rules);
    check_counted_in_own_container(&scene, &key);
}

#[test]
fn reveal_right_on_one_container_lifts_no_budget_of_a_caller_that_creates_elsewhere() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let access = AccessPolicy {
        permissions: Permissions::of(&[TokenCreate]),
        rules: vec![grant("/own/", Reveal, &[TokenCreate, TokenRead])],
    };
    let key = scene.server.application(&scene.keys.tenant, Private, access);
    check_counted_in_own_container(&scene, &key);
}

#[test]
fn public_key_with_a_reveal_right_is_counted() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let access = AccessPolicy {
        permissions: Permissions::default(),
        rules: vec![grant("/own/", Reveal, &[TokenCreate, TokenUpdate])],
    };
    let key = scene.server.application(&scene.keys.tenant, Public, access);
    check_counted_in_own_container(&scene, &key);
}

#[test]
fn replayed_request_of_a_public_key_with_a_reveal_right_is_counted() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let access = AccessPolicy {
        permissions: Permissions::default(),
        rules: vec![grant("/own/", Reveal, &[TokenCreate, TokenUpdate])],
    };
    let key = scene.server.application(&scene.keys.tenant, Public, access);
    let numbers = lookalikes("411111", 20);
    let create = |number: &str| {
        let ask = scene.server.ask("POST", "/tokens").key(&key).once("order-7");
        ask.json(&own_card(number)).send().status
    };
    assert_eq!(create(&numbers[0]), 201);
    for number in &numbers[1..] {
        assert_eq!(create(number), 422);
    }
    assert_eq!(create(&numbers[0]), 422, "spent: an equal request is not replayed");
}

#[test]
fn caller_with_reveal_rules_only_is_not_counted() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let rules = ["/own/", "/pci/"].map(|it| grant(it, Reveal, &[TokenCreate, TokenRead]));
    let of_rules = scene.server.rules(&scene.keys.tenant, rules.into());
    scene.spend(&of_rules, &lookalikes("411111", 45));
    // A rule on the root comes before plain permissions, and covers every container.
    let access = AccessPolicy {
        permissions: Permissions::of(&[TokenCreate, TokenSearch]),
        rules: vec![grant("/", Reveal, &[TokenRead])],
    };
    let of_root = scene.server.application(&scene.keys.tenant, Private, access);
    scene.spend(&of_root, &lookalikes("411111", 45));
    scene.flush();
    assert_eq!(scene.server.rows(&scene.keys.tenant, "guesses"), 0);
}

#[test]
fn test_tenants_are_not_counted() {
    let scene = LimitsHarness::new(TenantKind::Test);
    scene.spend(&scene.keys.public, &lookalikes("411111", 45));
    scene.flush();
    assert_eq!(scene.server.rows(&scene.keys.tenant, "guesses"), 0);
}

#[test]
fn constant_fingerprint_expression_does_not_bypass_the_count() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 22);
    for number in &numbers[..20] {
        let mut body = card(number);
        body["fingerprint_expression"] = json!("constant");
        scene.server.created(&scene.keys.public, &body);
    }
    assert_eq!(scene.fingerprint(&scene.keys.public, &numbers[20]), Value::Null);
}

#[test]
fn number_in_metadata_counts_when_the_fingerprint_shows_it() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let guess = |number: &str| {
        let mut body = card("4222222222222220");
        body["fingerprint_expression"] = json!("{{ metadata.guess }}");
        body["metadata"] = json!({"guess": number});
        scene.server.created(&scene.masked, &body)["fingerprint"].clone()
    };
    let numbers = lookalikes("411111", 21);
    for number in &numbers[..20] {
        assert!(guess(number).is_string());
    }
    assert_eq!(guess(&numbers[20]), Value::Null);
}

/// A create whose fingerprint is that of a guess in the metadata, whatever its own data is.
struct MetadataGuess {
    token_type: &'static str,
    own: Value,
    stored: Value,
    /// The text that the type's own expression gives for the stored data, and others like it.
    texts: Vec<String>,
}

fn metadata_guesses() -> [MetadataGuess; 4] {
    let texts = |text: fn(u32) -> String| (0..21).map(text).collect();
    let bank = |account: &str| json!({"routing_number": "021000021", "account_number": account});
    [
        MetadataGuess {
            token_type: "bank",
            own: bank("11115555"),
            stored: bank("1000207788"),
            texts: texts(|it| format!("{}7788|021000021", 100_000 + it)),
        },
        MetadataGuess {
            token_type: "us_bank_account_number",
            own: json!("1115555"),
            stored: json!("1000207799"),
            texts: texts(|it| format!("{}7799", 100_000 + it)),
        },
        MetadataGuess {
            token_type: "social_security_number",
            own: json!("000-00-0000"),
            stored: json!("123-20-6789"),
            texts: texts(|it| format!("123{it:02}6789")),
        },
        MetadataGuess {
            token_type: "employer_id_number",
            own: json!("00-0000000"),
            stored: json!("12-3204321"),
            texts: texts(|it| format!("123{it:02}4321")),
        },
    ]
}

#[test]
fn bank_and_identity_numbers_in_metadata_count_when_the_fingerprint_shows_them() {
    for kind in [Private, Public] {
        let scene = LimitsHarness::new(TenantKind::Production);
        let key = scene.server.permissions(&scene.keys.tenant, kind, &[TokenCreate]);
        for guess in metadata_guesses() {
            let token_type = guess.token_type;
            let stored = json!({"type": token_type, "data": guess.stored});
            let known = scene.server.created(&scene.keys.private, &stored);
            let create = |text: &str| {
                let body = json!({
                    "type": token_type,
                    "data": guess.own,
                    "fingerprint_expression": "{{ metadata.g }}",
                    "metadata": {"g": text},
                    "deduplicate_token": true,
                });
                scene.server.created(&key, &body)
            };
            for text in &guess.texts[..20] {
                assert!(create(text)["fingerprint"].is_string(), "{kind:?} {token_type} {text}");
            }
            let hit = create(&guess.texts[20]);
            assert_eq!(hit["fingerprint"], Value::Null, "{kind:?} {token_type}");
            assert_eq!(hit["_extras"]["deduplicated"], json!(false));
            assert_ne!(hit["id"], known["id"]);
            // The same number as data has no budget of its own.
            let as_data = scene.server.created(&key, &stored);
            assert_eq!(as_data["fingerprint"], Value::Null, "{kind:?} {token_type} as data");
        }
    }
}

#[test]
fn patched_metadata_counts_when_the_fingerprint_shows_it() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let body = json!({
        "type": "social_security_number",
        "data": "000-00-0000",
        "fingerprint_expression": "{{ metadata.g }}",
        "metadata": {"g": "none"},
    });
    let id = text(&scene.server.created(&scene.masked, &body), "id");
    for it in 0..21 {
        let patch = json!({"metadata": {"g": format!("123-{it:02}-6789")}});
        let patched = scene.server.patch(&scene.masked, &id, &patch).is(200);
        assert_eq!(patched["fingerprint"].is_string(), it < 20, "guess {it}");
    }
}

#[test]
fn spent_budget_does_not_deduplicate() {
    let settings = Settings { deduplicate_tokens: true, ..Settings::default() };
    let scene = LimitsHarness::with(TenantKind::Production, settings);
    let numbers = lookalikes("411111", 21);
    let known = scene.server.created(&scene.keys.private, &card(&numbers[20]));
    scene.spend(&scene.masked, &numbers[..20]);
    let made = scene.server.created(&scene.masked, &card(&numbers[20]));
    assert_ne!(made["id"], known["id"]);
    assert_eq!(made["_extras"]["deduplicated"], json!(false));
    let repeat = scene.server.created(&scene.masked, &card(&numbers[0]));
    assert_eq!(
        (&repeat["_extras"]["deduplicated"], &repeat["fingerprint"]),
        (&json!(false), &Value::Null)
    );
}

#[test]
fn intents_tokenize_and_patch_share_the_budget_and_succeed_when_it_is_spent() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let (server, key) = (&scene.server, &scene.masked);
    let numbers = lookalikes("411111", 24);
    let intent = |number: &str| server.post(key, "/token-intents", &card(number)).is(201);
    for number in &numbers[..10] {
        assert!(intent(number)["fingerprint"].is_string());
    }
    scene.spend(key, &numbers[10..18]);
    let both = json!({"a": card(&numbers[18]), "b": card(&numbers[19])});
    let made = server.post(key, "/tokenize", &both).is(200);
    assert!(made["a"]["fingerprint"].is_string() && made["b"]["fingerprint"].is_string());
    // Now it is spent.
    assert_eq!(intent(&numbers[20])["fingerprint"], Value::Null);
    let made = server.post(key, "/tokenize", &json!({"c": card(&numbers[21])})).is(200);
    assert_eq!(made["c"]["fingerprint"], Value::Null);
    let id = text(&server.created(key, &card("4222222222222220")), "id");
    let patched = server.patch(key, &id, &json!({"data": {"number": numbers[22]}})).is(200);
    assert_eq!(patched["fingerprint"], Value::Null);
    let stored = server.get(&scene.keys.private, &id).is(200);
    assert_eq!(
        (&stored["fingerprint"], &stored["data"]["number"]),
        (&Value::Null, &json!(numbers[22]))
    );
}

#[test]
fn patch_that_brings_no_number_keeps_the_fingerprint_of_a_spent_group() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 20);
    let id = text(&scene.server.created(&scene.masked, &card(&numbers[0])), "id");
    scene.spend(&scene.masked, &numbers[1..]);
    let patch = json!({"metadata": {"order": "7"}});
    let patched = scene.server.patch(&scene.masked, &id, &patch).is(200);
    assert!(patched["fingerprint"].is_string(), "{patched}");
    let patch = json!({"data": {"expiration_year": 2033}});
    let patched = scene.server.patch(&scene.masked, &id, &patch).is(200);
    assert!(patched["fingerprint"].is_string(), "{patched}");
}

#[test]
fn application_budget_counts_numbers_after_the_first_of_each_group() {
    let scene = LimitsHarness::new(TenantKind::Production);
    scene.quotas(|it| Quotas { number_guesses_application: Limit::Count(3), ..it });
    for first in ["411111", "411112", "411113", "411114", "411115"] {
        scene.spend(&scene.masked, &lookalikes(first, 1));
    }
    for first in ["411111", "411112", "411113"] {
        scene.spend(&scene.masked, &lookalikes(first, 2)[1..]);
    }
    assert_eq!(scene.fingerprint(&scene.masked, &lookalikes("411116", 1)[0]), Value::Null);
    let other = scene.server.permissions(&scene.keys.tenant, Private, &[TokenCreate, TokenRead]);
    assert!(scene.fingerprint(&other, &lookalikes("411116", 1)[0]).is_string());
}

#[test]
fn quota_off_lifts_the_limit() {
    let scene = LimitsHarness::new(TenantKind::Production);
    scene.quotas(|it| Quotas {
        number_guesses_day: Limit::Off,
        number_guesses_quarter: Limit::Off,
        ..it
    });
    scene.spend(&scene.masked, &lookalikes("411111", 45));
}

#[test]
fn bank_accounts_and_identity_numbers_have_groups_of_their_own() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let bank = |account: &str| {
        let data = json!({"routing_number": "021000021", "account_number": account});
        scene.server.created(&scene.masked, &json!({"type": "bank", "data": data}))
    };
    let ssn = |number: &str| {
        let body = json!({"type": "social_security_number", "data": number});
        scene.server.created(&scene.masked, &body)
    };
    for it in 10..30 {
        assert!(bank(&format!("{it}7777"))["fingerprint"].is_string());
        assert!(ssn(&format!("123-{it}-6789"))["fingerprint"].is_string());
    }
    assert_eq!(bank("307777")["fingerprint"], Value::Null);
    assert!(bank("307778")["fingerprint"].is_string());
    assert_eq!(ssn("123306789")["fingerprint"], Value::Null, "with or without separators");
    assert!(ssn("123-30-6788")["fingerprint"].is_string());
}

#[test]
fn counts_are_shared_by_nodes_and_survive_a_restart() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 21);
    scene.spend(&scene.masked, &numbers[..20]);
    scene.flush();
    let other = scene.server.beside(|app| app.vault.guesses = Arc::default());
    let made = other.created(&scene.masked, &card(&numbers[20]));
    assert_eq!(made["fingerprint"], Value::Null);
}

#[test]
fn spent_budget_is_recorded_once_and_counted_by_the_metric() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let numbers = lookalikes("411111", 23);
    scene.spend(&scene.masked, &numbers[..20]);
    for number in &numbers[20..] {
        scene.fingerprint(&scene.masked, number);
    }
    let key = scene.server.permissions(
        &scene.keys.tenant,
        scrip_core::policy::ApplicationKind::Management,
        &[scrip_core::policy::Permission::LogRead],
    );
    let logs = scene.server.fetch(&key, "/logs?size=100").is(200);
    let spent =
        logs["data"].as_array().unwrap().iter().filter(|it| it["operation"] == "spend_budget");
    let spent: Vec<_> = spent.collect();
    assert_eq!(spent.len(), 1, "{logs}");
    let counted =
        scene.server.app.vault.guesses.spent.iter().find(|it| it.0 == "number_guesses_day");
    assert_eq!(counted, Some(("number_guesses_day", 1)));
    assert!(!logs.to_string().contains(&numbers[0]));
}

#[test]
fn replayed_request_counts_its_number_before_it_is_compared() {
    let scene = LimitsHarness::new(TenantKind::Production);
    let public = scene.server.permissions(&scene.keys.tenant, Public, &[TokenCreate]);
    let numbers = lookalikes("411111", 22);
    let create = |number: &str| {
        let ask = scene.server.ask("POST", "/tokens").key(&public).once("order-7");
        ask.json(&card(number)).send().status
    };
    assert_eq!(create(&numbers[0]), 201);
    assert_eq!(create(&numbers[0]), 201, "an equal request is replayed");
    for number in &numbers[1..20] {
        assert_eq!(create(number), 422);
    }
    assert_eq!(create(&numbers[0]), 422, "spent: equal and different requests look the same");
    assert_eq!(create(&numbers[21]), 422);
}
