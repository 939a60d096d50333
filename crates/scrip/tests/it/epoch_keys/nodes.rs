//! Nodes that share the epoch keys of CVCs through Redis: each node returns the CVCs of the other
//! node. While Redis is unavailable, the nodes work without CVCs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use scrip_api::app::App;
use scrip_core::{
    policy::TenantSettings,
    types::{Permission, Transform},
};
use scrip_seal::{
    EpochKeys, KeyExchange, KeyExchangeFuture, KeyOffer, SharedEpoch, WrappedEpochKey,
};
use scrip_server::epoch_keys::redis_exchange::{DiskPolicy, RedisKeyExchange};
use scrip_testing::{process::redis::RedisServer, requests::assert_members};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::harness::server::{
    TenantApiKeys, TestResponse, TestServer, card_body, grant, unique_card_number,
};

const EPOCH: Duration = Duration::from_secs(15 * 60);

/// Counts key exchanges caused by requests. Background renewals are not counted.
struct CountingKeyExchange {
    keys: Arc<RedisKeyExchange>,
    requests: AtomicUsize,
}

impl KeyExchange for CountingKeyExchange {
    fn exchange<'a>(
        &'a self,
        epoch: &'a SharedEpoch,
        leave: KeyOffer<'a>,
    ) -> KeyExchangeFuture<'a, Vec<WrappedEpochKey>> {
        if matches!(leave, KeyOffer::None | KeyOffer::IfAbsent(_)) {
            self.requests.fetch_add(1, Ordering::SeqCst);
        }
        self.keys.exchange(epoch, leave)
    }

    fn is_available(&self) -> bool {
        self.keys.is_available()
    }

    fn failure_count(&self) -> u64 {
        self.keys.failure_count()
    }
}

/// Two nodes with one store and one Redis. Their Redis connections run in a runtime of the test.
struct TwoNodeHarness {
    redis: RedisServer,
    first: TestServer,
    second: TestServer,
    keys: TenantApiKeys,
    exchanges: [Arc<CountingKeyExchange>; 2],
    runtime: Runtime,
}

fn connect_exchange(runtime: &Runtime, redis: &RedisServer) -> Arc<CountingKeyExchange> {
    let keys =
        runtime.block_on(RedisKeyExchange::start(redis.client(), DiskPolicy::Forbidden)).unwrap();
    Arc::new(CountingKeyExchange { keys, requests: AtomicUsize::new(0) })
}

/// Replaces the key exchange as if the node had started with it: the vault is already unsealed.
fn use_exchange(app: &mut App, exchange: &Arc<CountingKeyExchange>) {
    let epochs = EpochKeys::shared(EPOCH, Arc::<CountingKeyExchange>::clone(exchange));
    // The name that a reload of the directory uses, too.
    let vault_name = app.pepper().unwrap().counter_name(&[b"epoch keys"]);
    epochs.unlock(Arc::clone(app.key_source.get().unwrap()), vault_name);
    app.vault.epoch_keys = Arc::new(epochs);
}

impl TwoNodeHarness {
    fn new() -> Self {
        let (redis, runtime) = (RedisServer::start(), Runtime::new().unwrap());
        let counts = [connect_exchange(&runtime, &redis), connect_exchange(&runtime, &redis)];
        let first = TestServer::start_with(|app| use_exchange(app, &counts[0]));
        let keys = first.create_default_tenant();
        let second = first.start_second_node(|app| use_exchange(app, &counts[1]));
        Self { redis, first, second, keys, exchanges: counts, runtime }
    }

    fn request_counts(&self) -> [usize; 2] {
        self.exchanges.each_ref().map(|it| it.requests.load(Ordering::SeqCst))
    }

    /// Starts another node without any key in memory.
    fn start_third_node(&self) -> TestServer {
        let exchange = connect_exchange(&self.runtime, &self.redis);
        self.first.start_second_node(|app| use_exchange(app, &exchange))
    }

    fn create_card(&self, node: &TestServer) -> String {
        node.create_token_id(&self.keys.private, &card_body(&unique_card_number()))
    }

    fn read_cvc(&self, node: &TestServer, id: &str) -> Value {
        node.get_token(&self.keys.private, id).expect_status(200)["data"]["cvc"].clone()
    }

    /// Republishes the keys like the background task does, until Redis accepts them.
    fn wait_until_renewed(&self, node: &TestServer) {
        for _ in 0..3000 {
            let epochs = &node.app.vault.epoch_keys;
            let is_renewed = self.runtime.block_on(epochs.republish()).is_ok();
            if is_renewed && epochs.exchange().unwrap().is_available() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        unreachable!("Redis did not become available");
    }
}

fn card_without_cvc() -> Value {
    let data =
        json!({"number": unique_card_number(), "expiration_month": 7, "expiration_year": 2031});
    json!({"type": "card", "data": data})
}

#[track_caller]
fn expect_unavailable(response: &TestResponse) {
    response.expect_problem(503, "try again");
    assert!(response.headers.contains_key("retry-after"), "{:?}", response.headers);
}

#[test]
fn nodes_return_cvcs_created_on_the_other_node() {
    let harness = TwoNodeHarness::new();
    let (key, nodes) = (
        &harness.keys.private,
        [(&harness.first, &harness.second), (&harness.second, &harness.first)],
    );
    for (creator, reader) in nodes {
        let id = harness.create_card(creator);
        assert_eq!(harness.read_cvc(reader, &id), "123");
        let listed = reader.get_path(key, "/v2/tokens?size=100").expect_status(200);
        let listed = listed["data"].as_array().unwrap().iter().find(|it| it["id"] == id.as_str());
        assert_eq!(listed.unwrap()["data"]["cvc"], "123");
        let numbered_list = reader.get_path(key, &format!("/tokens?id={id}")).expect_status(200);
        assert_eq!(numbered_list["data"][0]["data"]["cvc"], "123");
        let body = json!({"code": format!("{{{{ {id} | json: '$.cvc' }}}}")});
        assert_eq!(reader.post(key, "/detokenize", &body).expect_status(200)["code"], "123");
        let patched =
            reader.patch_token(key, &id, &json!({"metadata": {"by": "other"}})).expect_status(200);
        assert_eq!(patched["data"]["cvc"], "123");
        let patched =
            reader.patch_token(key, &id, &json!({"data": {"cvc": "456"}})).expect_status(200);
        assert_eq!(patched["data"]["cvc"], "456");
        assert_eq!(harness.read_cvc(creator, &id), "456");
        let intent = creator.create_intent_id(key, &card_body(&unique_card_number()));
        let body = json!({"c": format!("{{{{ token_intent: {intent} | json: '$.data.cvc' }}}}")});
        assert_eq!(reader.post(key, "/detokenize", &body).expect_status(200)["c"], "123");
    }
}

/// A deduplicated token is returned with the CVC that the other node sealed, also when it is
/// updated.
#[test]
fn deduplicated_token_is_returned_with_the_cvc_of_the_other_node() {
    let harness = TwoNodeHarness::new();
    let updating = TenantSettings {
        deduplicate_tokens: true,
        token_deduplication_behavior: scrip_core::policy::DeduplicationBehavior::UpdateExisting,
        ..TenantSettings::default()
    };
    for settings in
        [TenantSettings { deduplicate_tokens: true, ..TenantSettings::default() }, updating]
    {
        let keys = harness.first.create_test_tenant(settings);
        harness.runtime.block_on(harness.second.app.reload()).unwrap();
        let with_code = card_body(&unique_card_number());
        let created = harness.first.create_token_ok(&keys.private, &with_code);
        let mut body_without_cvc = with_code.clone();
        body_without_cvc["data"].as_object_mut().unwrap().remove("cvc");
        let third_node = harness.start_third_node();
        let duplicate = third_node.create_token(&keys.private, &body_without_cvc);
        let duplicate = duplicate.json();
        assert_eq!(
            (&duplicate["id"], &duplicate["data"]["cvc"]),
            (&created["id"], &json!("123")),
            "{duplicate}"
        );
    }
}

#[test]
fn redis_is_queried_once_per_epoch_and_only_for_cvcs() {
    let harness = TwoNodeHarness::new();
    let rule = grant("/", Transform::Mask, &[Permission::TokenRead]);
    let key_without_reveal = harness.first.key_with_rules(&harness.keys.tenant, vec![rule]);
    harness.runtime.block_on(harness.second.app.reload()).unwrap();
    let id = harness.first.create_token_id(&harness.keys.private, &card_without_cvc());
    harness.second.get_token(&harness.keys.private, &id).expect_status(200);
    assert_eq!(harness.request_counts(), [0, 0], "Redis was queried without a CVC");
    let ids: Vec<_> = (0..20).map(|_| harness.create_card(&harness.first)).collect();
    ids.iter()
        .for_each(|it| drop(harness.second.get_token(&key_without_reveal, it).expect_status(200)));
    assert_eq!(harness.request_counts()[1], 0, "Redis was queried for a masked read");
    for id in &ids {
        assert_eq!(harness.read_cvc(&harness.second, id), "123");
        assert_eq!(harness.read_cvc(&harness.first, id), "123");
    }
    // An epoch may have ended during the test.
    assert!(
        harness.request_counts().iter().all(|it| (1..=2).contains(it)),
        "{:?}",
        harness.request_counts()
    );
}

#[test]
fn without_redis_cards_work_and_cvc_requests_are_503() {
    let mut harness = TwoNodeHarness::new();
    let key = harness.keys.private.clone();
    let rule = grant("/", Transform::Mask, &[Permission::TokenRead]);
    let key_without_reveal = harness.first.key_with_rules(&harness.keys.tenant, vec![rule]);
    harness.runtime.block_on(harness.second.app.reload()).unwrap();
    let id = harness.create_card(&harness.first);
    harness.redis.kill();
    let rows = harness.first.count_rows(&harness.keys.tenant, "tokens");
    expect_unavailable(&harness.second.create_token(&key, &card_body(&unique_card_number())));
    expect_unavailable(&harness.second.post(
        &key,
        "/token-intents",
        &card_body(&unique_card_number()),
    ));
    expect_unavailable(&harness.second.patch_token(&key, &id, &json!({"data": {"cvc": "456"}})));
    let body_with_and_without_cvc =
        json!({"a": card_body(&unique_card_number()), "b": card_without_cvc()});
    expect_unavailable(&harness.second.post(&key, "/tokenize", &body_with_and_without_cvc));
    let stored = harness.first.count_rows(&harness.keys.tenant, "tokens");
    assert_eq!(stored, rows, "a failed tokenize stored tokens");
    // Validation errors are reported before the missing key.
    let mut invalid_card = card_body("4242424242424241");
    invalid_card["data"]["cvc"] = json!("123");
    harness.second.create_token(&key, &invalid_card).expect_invalid("data.number");
    expect_unavailable(&harness.second.get_token(&key, &id));
    expect_unavailable(&harness.second.get_path(&key, "/v2/tokens"));
    expect_unavailable(&harness.second.patch_token(&key, &id, &json!({"metadata": {"a": "b"}})));
    harness.second.get_token(&key_without_reveal, &id).expect_status(200);
    let card_without_cvc_id = harness.second.create_token_id(&key, &card_without_cvc());
    harness.second.get_token(&key, &card_without_cvc_id).expect_status(200);
    // The other node has its key in memory.
    assert_eq!(harness.read_cvc(&harness.first, &id), "123");
    assert_eq!(harness.second.get_path(&key, "/readyz").status, 200);

    // Nodes republish keys that Redis lost.
    assert!(harness.redis.restart());
    harness.wait_until_renewed(&harness.first);
    harness.wait_until_renewed(&harness.second);
    assert_eq!(harness.read_cvc(&harness.second, &id), "123");
}

#[test]
fn cvc_is_lost_with_its_key_but_the_card_remains() {
    let harness = TwoNodeHarness::new();
    let id = harness.create_card(&harness.second);
    let TwoNodeHarness { redis, first: one, second: two, keys, runtime: _runtime, .. } = harness;
    drop(two);
    let () = redis.query(&["FLUSHALL"]);
    let token = one.get_token(&keys.private, &id).expect_status(200);
    assert_members(&token["data"], &json!({"cvc": null, "expiration_month": 7}));
    let updated =
        one.patch_token(&keys.private, &id, &json!({"data": {"cvc": "456"}})).expect_status(200);
    assert_eq!(updated["data"]["cvc"], "456");
}

/// Two disconnected nodes created two keys for one epoch. Each node still returns all CVCs.
#[test]
fn two_keys_of_one_epoch_are_exchanged_by_all_nodes() {
    let harness = TwoNodeHarness::new();
    let first_card = harness.create_card(&harness.first);
    let () = harness.redis.query(&["FLUSHALL"]);
    let third_node = harness.start_third_node();
    let second_card = harness.create_card(&third_node);
    harness.wait_until_renewed(&harness.first);
    harness.wait_until_renewed(&third_node);
    for node in [&harness.first, &harness.second, &third_node] {
        for id in [&first_card, &second_card] {
            assert_eq!(harness.read_cvc(node, id), "123");
        }
    }
}
