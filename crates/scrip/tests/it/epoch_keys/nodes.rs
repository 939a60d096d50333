//! Nodes that share the keys of verification codes through a Redis: what they show of each other's
//! cards, and what is left when it is away.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use scrip_api::app::App;
use scrip_core::policy::{Permission, TenantSettings, Transform};
use scrip_seal::{
    EpochKeys, KeyExchange, KeyExchangeFuture, KeyOffer, SharedEpoch, WrappedEpochKey,
};
use scrip_server::epoch_keys::redis_exchange::{DiskPolicy, RedisKeyExchange};
use scrip_testing::redis::RedisServer;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::harness::server::{
    TenantApiKeys, TestResponse, TestServer, card_body, grant, text_field, unique_card_number,
};

const EPOCH: Duration = Duration::from_secs(15 * 60);

/// Counts what requests ask for; what is renewed in the background is not counted.
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

/// Two nodes on one store and one Redis. Their connections live in a runtime of the test's own.
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

/// As if it had been started with these: the vault is open already.
fn use_exchange(app: &mut App, exchange: &Arc<CountingKeyExchange>) {
    let epochs = EpochKeys::shared(EPOCH, Arc::<CountingKeyExchange>::clone(exchange));
    epochs.unlock(Arc::clone(app.key_source.get().unwrap()), [7; 32]);
    app.vault.epoch_keys = Arc::new(epochs);
}

impl TwoNodeHarness {
    fn new() -> Self {
        let (redis, runtime) = (RedisServer::start(), Runtime::new().unwrap());
        let counts = [connect_exchange(&runtime, &redis), connect_exchange(&runtime, &redis)];
        let one = TestServer::start_with(|app| use_exchange(app, &counts[0]));
        let keys = one.create_test_tenant(TenantSettings::default());
        let two = one.start_second_node(|app| use_exchange(app, &counts[1]));
        Self { redis, first: one, second: two, keys, exchanges: counts, runtime }
    }

    fn request_counts(&self) -> [usize; 2] {
        self.exchanges.each_ref().map(|it| it.requests.load(Ordering::SeqCst))
    }

    /// A node that was started just now, and holds nothing.
    fn start_third_node(&self) -> TestServer {
        let counting = connect_exchange(&self.runtime, &self.redis);
        self.first.start_second_node(|app| use_exchange(app, &counting))
    }

    fn create_card(&self, node: &TestServer) -> String {
        text_field(
            &node.create_token_ok(&self.keys.private, &card_body(&unique_card_number())),
            "id",
        )
    }

    fn read_cvc(&self, node: &TestServer, id: &str) -> Value {
        node.get_token(&self.keys.private, id).expect_status(200)["data"]["cvc"].clone()
    }

    /// Until what it holds is there again, as what runs in the background sees to.
    fn wait_until_renewed(&self, node: &TestServer) {
        for _ in 0..3000 {
            let epochs = &node.app.vault.epoch_keys;
            let renewed = self.runtime.block_on(epochs.republish()).is_ok();
            if renewed && epochs.exchange().unwrap().is_available() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        unreachable!("Redis is never back");
    }
}

fn card_without_cvc() -> Value {
    let data =
        json!({"number": unique_card_number(), "expiration_month": 7, "expiration_year": 2031});
    json!({"type": "card", "data": data})
}

#[track_caller]
fn expect_unavailable(reply: &TestResponse) {
    reply.expect_problem(503, "try again");
    assert!(reply.headers.contains_key("retry-after"), "{:?}", reply.headers);
}

#[test]
fn nodes_return_cvcs_created_on_the_other_node() {
    let harness = TwoNodeHarness::new();
    let (key, nodes) = (
        &harness.keys.private,
        [(&harness.first, &harness.second), (&harness.second, &harness.first)],
    );
    for (maker, reader) in nodes {
        let id = harness.create_card(maker);
        assert_eq!(harness.read_cvc(reader, &id), "123");
        let listed = reader.get_path(key, "/v2/tokens?size=100").expect_status(200);
        let listed = listed["data"].as_array().unwrap().iter().find(|it| it["id"] == id.as_str());
        assert_eq!(listed.unwrap()["data"]["cvc"], "123");
        let numbered = reader.get_path(key, &format!("/tokens?id={id}")).expect_status(200);
        assert_eq!(numbered["data"][0]["data"]["cvc"], "123");
        let body = json!({"code": format!("{{{{ {id} | json: '$.cvc' }}}}")});
        assert_eq!(reader.post(key, "/detokenize", &body).expect_status(200)["code"], "123");
        let patched =
            reader.patch_token(key, &id, &json!({"metadata": {"by": "other"}})).expect_status(200);
        assert_eq!(patched["data"]["cvc"], "123");
        let patched =
            reader.patch_token(key, &id, &json!({"data": {"cvc": "456"}})).expect_status(200);
        assert_eq!(
            (&patched["data"]["cvc"], harness.read_cvc(maker, &id)),
            (&json!("456"), json!("456"))
        );
        let intent = text_field(
            &maker
                .post(key, "/token-intents", &card_body(&unique_card_number()))
                .expect_status(201),
            "id",
        );
        let body = json!({"c": format!("{{{{ token_intent: {intent} | json: '$.data.cvc' }}}}")});
        assert_eq!(reader.post(key, "/detokenize", &body).expect_status(200)["c"], "123");
    }
}

/// A duplicate that the other node made is shown with its code, also where it is updated.
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
        let mut without = with_code.clone();
        without["data"].as_object_mut().unwrap().remove("cvc");
        let third = harness.start_third_node();
        let again = third.create_token(&keys.private, &without);
        let again = again.json();
        assert_eq!(
            (&again["id"], &again["data"]["cvc"]),
            (&created["id"], &json!("123")),
            "{again}"
        );
    }
}

#[test]
fn redis_is_queried_once_per_epoch_and_only_for_cvcs() {
    let harness = TwoNodeHarness::new();
    let rule = grant("/", Transform::Mask, &[Permission::TokenRead]);
    let masked = harness.first.key_with_rules(&harness.keys.tenant, vec![rule]);
    harness.runtime.block_on(harness.second.app.reload()).unwrap();
    let id = text_field(
        &harness.first.create_token_ok(&harness.keys.private, &card_without_cvc()),
        "id",
    );
    harness.second.get_token(&harness.keys.private, &id).expect_status(200);
    assert_eq!(harness.request_counts(), [0, 0], "nobody spoke of a code");
    let ids: Vec<_> = (0..20).map(|_| harness.create_card(&harness.first)).collect();
    ids.iter().for_each(|it| drop(harness.second.get_token(&masked, it).expect_status(200)));
    assert_eq!(harness.request_counts()[1], 0, "a mask shows none");
    for id in &ids {
        assert_eq!(harness.read_cvc(&harness.second, id), "123");
        assert_eq!(harness.read_cvc(&harness.first, id), "123");
    }
    // An epoch may have ended meanwhile.
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
    let masked = harness.first.key_with_rules(&harness.keys.tenant, vec![rule]);
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
    let both = json!({"a": card_body(&unique_card_number()), "b": card_without_cvc()});
    expect_unavailable(&harness.second.post(&key, "/tokenize", &both));
    assert_eq!(
        harness.first.count_rows(&harness.keys.tenant, "tokens"),
        rows,
        "nothing is half done"
    );
    // What breaks a rule is told first.
    let mut wrong = card_body("4242424242424241");
    wrong["data"]["cvc"] = json!("123");
    harness.second.create_token(&key, &wrong).expect_invalid("data.number");
    expect_unavailable(&harness.second.get_token(&key, &id));
    expect_unavailable(&harness.second.get_path(&key, "/v2/tokens"));
    expect_unavailable(&harness.second.patch_token(&key, &id, &json!({"metadata": {"a": "b"}})));
    harness.second.get_token(&masked, &id).expect_status(200);
    let plain = text_field(&harness.second.create_token_ok(&key, &card_without_cvc()), "id");
    harness.second.get_token(&key, &plain).expect_status(200);
    // The other one has its key at hand.
    assert_eq!(harness.read_cvc(&harness.first, &id), "123");
    assert_eq!(harness.second.get_path(&key, "/readyz").status, 200);

    // What Redis lost, whoever holds it brings back.
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
    let found = one.get_token(&keys.private, &id).expect_status(200);
    assert_eq!(
        (&found["data"]["cvc"], &found["data"]["expiration_month"]),
        (&Value::Null, &json!(7))
    );
    let updated =
        one.patch_token(&keys.private, &id, &json!({"data": {"cvc": "456"}})).expect_status(200);
    assert_eq!(updated["data"]["cvc"], "456");
}

/// Nodes that lost sight of each other made two keys for one epoch; each still shows all codes.
#[test]
fn two_keys_of_one_epoch_are_exchanged_by_all_nodes() {
    let harness = TwoNodeHarness::new();
    let before = harness.create_card(&harness.first);
    let () = harness.redis.query(&["FLUSHALL"]);
    let third = harness.start_third_node();
    let after = harness.create_card(&third);
    harness.wait_until_renewed(&harness.first);
    harness.wait_until_renewed(&third);
    for node in [&harness.first, &harness.second, &third] {
        for id in [&before, &after] {
            assert_eq!(harness.read_cvc(node, id), "123");
        }
    }
}
