//! Every action on one vault: its records, and the facts in its text and its JSON.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc};

use scrip_core::{
    operations::webhooks::create_webhook::create_webhook,
    policy::{Directory, PolicyPermit, Tenant},
    types::id::TenantId,
};
use scrip_testing::{
    vault::{create_proxy_with_host, proxy_draft, root_key, webhook_draft},
    vault_harness::{Engine, VaultHarness},
};
use serde_json::{Value, json};

use crate::{
    action::{ActionAnswer, PreparedAction, SecondPerson, run_action},
    actions::{ACTIONS, find_action},
    operator::{OpenedVault, Operator},
    output::CommandOutput,
};

struct ActionHarness {
    vault: VaultHarness,
    tried: BTreeSet<&'static str>,
}

impl ActionHarness {
    async fn open() -> Self {
        Self { vault: VaultHarness::open(Engine::Sqlite).await, tried: BTreeSet::new() }
    }

    async fn operator(&self) -> Operator {
        let (vault, directory) = (self.vault.vault.clone(), self.vault.shared_directory().await);
        vault.audit_trail.set_key(directory.audit_key());
        let head_file = PathBuf::from("head");
        let opened = OpenedVault { vault, key_source: Arc::new(root_key()), directory, head_file };
        Operator::new(opened, Some("alice".into())).await.unwrap()
    }

    async fn directory(&self) -> Directory {
        self.vault.directory().await
    }

    fn prepare(&mut self, name: &str, input: &Value) -> Box<dyn PreparedAction> {
        let row = find_action(name).unwrap();
        self.tried.insert(row.spec.name);
        row.parse(&input.to_string()).unwrap()
    }

    async fn try_run(&mut self, name: &str, input: &Value) -> ActionAnswer {
        let action = self.prepare(name, input);
        run_action(&self.operator().await, &*action, async { Ok(()) }).await
    }

    /// Runs an action. Its text has no id, time or key that its JSON lacks.
    #[track_caller]
    fn check(name: &str, answer: ActionAnswer) -> CommandOutput {
        let output = answer.result.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(answer.warnings, Vec::<String>::new(), "{name}");
        let json = output.json.to_string();
        for fact in facts(&output.text) {
            assert!(json.contains(fact), "{name}: the JSON lacks {fact}: {json}");
        }
        for row in output.json.as_object().into_iter().flat_map(|it| it.values()) {
            for id in row.as_array().into_iter().flatten().filter_map(|it| it.get("id")) {
                let id = id.as_str().unwrap();
                let start: String = id.chars().take(12).collect();
                assert!(output.text.contains(&start), "{name}: the text lacks {id}");
            }
        }
        output
    }

    async fn run(&mut self, name: &str, input: Value) -> Value {
        let answer = self.try_run(name, &input).await;
        Self::check(name, answer).json
    }
}

/// The words of a text that are ids, times or keys.
fn facts(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|it: char| it.is_whitespace() || ",;()".contains(it));
    let words = words.map(|it| it.trim_end_matches(['.', ':']));
    words.filter(|it| {
        let is_id = it.len() == 36 && it.bytes().filter(|byte| *byte == b'-').count() == 4;
        let is_time = it.ends_with('Z') && it.contains('T') && it.starts_with("20");
        is_id || is_time || it.starts_with("key_")
    })
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name}: {value}")).to_owned()
}

fn permit(tenant: &Arc<Tenant>) -> PolicyPermit {
    PolicyPermit::for_operator(Arc::clone(tenant))
}

/// The ids of entities that only clients create.
struct ClientEntities {
    proxy: String,
    webhook: String,
}

async fn create_client_entities(harness: &ActionHarness, tenant: TenantId) -> ClientEntities {
    let directory = harness.directory().await;
    let tenant = directory.tenant(tenant).unwrap();
    let vault = &harness.vault.vault;
    let (permit, draft) = (|| permit(tenant), proxy_draft("pay", None));
    let proxy = create_proxy_with_host(vault, directory.pepper(), permit(), permit(), draft).await;
    let webhook = create_webhook(vault, permit(), webhook_draft("orders"), None).await.unwrap();
    ClientEntities { proxy: proxy.record.id.to_string(), webhook: webhook.record.id.to_string() }
}

#[tokio::test]
async fn text_of_every_action_has_only_facts_of_its_json() {
    let mut harness = ActionHarness::open().await;
    let tenant = json!({ "name": "Acme", "kind": "production", "allow_duplicate_name": false });
    let created = harness.run("tenant create", tenant.clone()).await;
    let id = text(&created, "id");
    let duplicate = harness.try_run("tenant create", &tenant).await;
    assert!(duplicate.result.unwrap_err().contains(&id));
    let of_tenant = json!({ "tenant": id });
    let application = json!({
        "tenant": id, "name": "Admin", "type": "management", "permissions": [], "rules": [],
        "origins": [], "all": true, "no_key": false,
    });
    let application = text(&harness.run("application create", application).await, "id");
    let created = harness.run("key create", json!({ "application": application })).await;
    let (key_id, key) = (text(&created, "id"), text(&created, "key"));
    harness.run("key find", json!({ "key": key })).await;
    let imported = json!({
        "application": application, "file": null, "key": "key_prod_us_pvt_01234567890123456789",
    });
    harness.run("key import", imported).await;
    harness.run("key list", json!({ "tenant": id, "application": null })).await;
    harness.run("key delete", json!({ "key": key_id })).await;

    let entities = create_client_entities(&harness, TenantId::parse(&id).unwrap()).await;
    let host = |it: &str| json!({ "host": it, "proxy": entities.proxy });
    harness.run("proxy host add", host("pay.example")).await;
    harness.run("proxy host list", of_tenant.clone()).await;
    harness.run("proxy host remove", json!({ "host": "pay.example" })).await;
    let webhook = &entities.webhook;
    harness.run("webhook list", of_tenant.clone()).await;
    harness.run("webhook deliveries", json!({ "webhook": webhook, "limit": 5 })).await;
    let replay = json!({ "webhook": webhook, "from": "2020-01-01T00:00:00Z" });
    harness.run("webhook replay", replay).await;
    harness.run("webhook enable", json!({ "webhook": webhook })).await;

    harness.run("access-session list", of_tenant.clone()).await;
    let unknown = json!({ "session": "0123456789" });
    let revoked = harness.try_run("access-session revoke", &unknown).await;
    assert!(revoked.result.unwrap_err().contains("does not exist"));
    for name in ["application list", "tenant list", "tenant show", "tenant quota show"] {
        harness.run(name, of_tenant.clone()).await;
    }
    harness.run("tenant quota set", json!({ "tenant": id, "quotas": ["log_retention=30d"] })).await;
    harness.run("keys rotate tenant", json!({ "tenant": id, "all": false })).await;
    harness.run("keys rotation pause", of_tenant.clone()).await;
    harness.run("keys rotation status", of_tenant.clone()).await;
    harness.run("keys rotation resume", of_tenant.clone()).await;
    harness.run("application delete", json!({ "application": application })).await;
    let delete = json!({ "tenant": id, "yes": true, "now": false });
    harness.run("tenant delete", delete).await;
    harness.run("tenant restore", of_tenant).await;

    let all: BTreeSet<_> = ACTIONS.iter().map(|it| it.spec.name).collect();
    assert_eq!(harness.tried, all, "each action needs a row above");
    assert_eq!(all.len(), ACTIONS.len(), "two actions have one name");
}

#[tokio::test]
async fn action_without_a_used_approval_does_not_run() {
    let mut harness = ActionHarness::open().await;
    let input = json!({ "name": "Acme", "kind": "test", "allow_duplicate_name": false });
    let action = harness.prepare("tenant create", &input);
    let operator = harness.operator().await;
    let missing = async { anyhow::bail!("not approved") };
    let answer = run_action(&operator, &*action, missing).await;
    assert_eq!(answer.result.unwrap_err(), "not approved");
    assert!(harness.directory().await.tenants().is_empty());
}

/// Prepares an action and returns the text that the second operator sees.
async fn approval_text(
    harness: &mut ActionHarness,
    name: &str,
    input: &Value,
) -> anyhow::Result<String> {
    let action = harness.prepare(name, input);
    let operator = harness.operator().await;
    Ok(action.approval_text(&operator)?.text().to_owned())
}

#[tokio::test]
async fn approval_text_names_the_key_by_a_digest_and_entities_by_their_ids() {
    let mut harness = ActionHarness::open().await;
    let tenant = json!({ "name": "Acme", "kind": "test", "allow_duplicate_name": false });
    let id = text(&harness.run("tenant create", tenant).await, "id");
    let new_application = |tenant: &str| {
        json!({
            "tenant": tenant, "name": "Shop", "type": "private", "permissions": ["token:read"],
            "rules": [], "origins": [], "all": false, "no_key": true,
        })
    };
    let application = harness.run("application create", new_application("Acme")).await;
    let application = text(&application, "id");
    let shown = approval_text(&mut harness, "application create", &new_application("Acme")).await;
    let shown = shown.unwrap();
    assert!(shown.contains(&id) && shown.contains(r#""tenant_name":"Acme""#), "{shown}");
    let import = |key: &str| json!({ "application": application, "file": "key.txt", "key": key });
    let (first, second) =
        ("key_prod_us_pvt_01234567890123456789", "key_prod_us_pvt_01234567890123456780");
    let shown = approval_text(&mut harness, "key import", &import(first)).await.unwrap();
    assert!(shown.contains("key_digest") && !shown.contains(first), "{shown}");
    assert!(shown.contains(r#""application_name":"Shop""#) && shown.contains(&id), "{shown}");
    let other = approval_text(&mut harness, "key import", &import(second)).await.unwrap();
    assert_ne!(shown, other, "an approval must not be valid for another key");
}

#[tokio::test]
async fn action_that_cannot_succeed_has_no_approval_text() {
    let mut harness = ActionHarness::open().await;
    let tenant = json!({ "name": "Acme", "kind": "test", "allow_duplicate_name": false });
    let id = text(&harness.run("tenant create", tenant).await, "id");
    for (name, input, expected) in [
        ("tenant restore", json!({ "tenant": id }), "can be restored"),
        ("tenant delete", json!({ "tenant": "Umbrella", "yes": true, "now": false }), "no tenant"),
        ("tenant quota set", json!({ "tenant": id, "quotas": ["log_retention=x"] }), "must be"),
        ("key create", json!({ "application": "a" }), "not the id of an application"),
        ("key import", json!({ "application": "a", "file": null, "key": "x" }), ""),
        ("proxy host add", json!({ "host": "pay.example", "proxy": "p" }), "not the id of a proxy"),
    ] {
        let error = approval_text(&mut harness, name, &input).await.unwrap_err();
        assert!(format!("{error:#}").contains(expected), "{name}: {error:#}");
    }
}

#[test]
fn deletion_without_confirmation_needs_no_second_person() {
    for (is_confirmed, expected) in
        [(false, SecondPerson::Never), (true, SecondPerson::UnderDualControl)]
    {
        let input = json!({ "tenant": "Acme", "yes": is_confirmed, "now": false });
        let action = find_action("tenant delete").unwrap().parse(&input.to_string()).unwrap();
        assert_eq!(action.second_person(), expected);
    }
}
