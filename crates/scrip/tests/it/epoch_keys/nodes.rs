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
use scrip_core::policy::{Permission, Settings, Transform};
use scrip_seal::{Asked, EpochKeys, KeyExchange, Leave, NamedEpoch, WrappedEpochKey};
use scrip_server::epoch_keys::shared::{Disks, SharedKeys};
use scrip_testing::redis::Redis;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::harness::server::{Keys, Reply, Server, card, grant, new_number, text};

const EPOCH: Duration = Duration::from_secs(15 * 60);

/// Counts what requests ask for; what is renewed in the background is not counted.
struct Counting {
    keys: Arc<SharedKeys>,
    asked: AtomicUsize,
}

impl KeyExchange for Counting {
    fn exchange<'a>(
        &'a self,
        epoch: &'a NamedEpoch,
        leave: Leave<'a>,
    ) -> Asked<'a, Vec<WrappedEpochKey>> {
        if matches!(leave, Leave::Nothing | Leave::First(_)) {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
        self.keys.exchange(epoch, leave)
    }

    fn answers(&self) -> bool {
        self.keys.answers()
    }

    fn failed(&self) -> u64 {
        self.keys.failed()
    }
}

/// Two nodes on one store and one Redis. Their connections live in a runtime of the test's own.
struct Scene {
    redis: Redis,
    one: Server,
    two: Server,
    keys: Keys,
    counts: [Arc<Counting>; 2],
    runtime: Runtime,
}

fn sharing(runtime: &Runtime, redis: &Redis) -> Arc<Counting> {
    let keys = runtime.block_on(SharedKeys::start(redis.client(), Disks::Refused)).unwrap();
    Arc::new(Counting { keys, asked: AtomicUsize::new(0) })
}

/// As if it had been started with these: the vault is open already.
fn take(app: &mut App, exchange: &Arc<Counting>) {
    let epochs = EpochKeys::shared(EPOCH, Arc::<Counting>::clone(exchange));
    epochs.unlock(Arc::clone(app.source.get().unwrap()), [7; 32]);
    app.vault.epochs = Arc::new(epochs);
}

impl Scene {
    fn new() -> Self {
        let (redis, runtime) = (Redis::start(), Runtime::new().unwrap());
        let counts = [sharing(&runtime, &redis), sharing(&runtime, &redis)];
        let one = Server::with(|app| take(app, &counts[0]));
        let keys = one.tenant(Settings::default());
        let two = one.beside(|app| take(app, &counts[1]));
        Self { redis, one, two, keys, counts, runtime }
    }

    fn asked(&self) -> [usize; 2] {
        self.counts.each_ref().map(|it| it.asked.load(Ordering::SeqCst))
    }

    /// A node that was started just now, and holds nothing.
    fn three(&self) -> Server {
        let counting = sharing(&self.runtime, &self.redis);
        self.one.beside(|app| take(app, &counting))
    }

    fn made(&self, node: &Server) -> String {
        text(&node.created(&self.keys.private, &card(&new_number())), "id")
    }

    fn code(&self, node: &Server, id: &str) -> Value {
        node.get(&self.keys.private, id).is(200)["data"]["cvc"].clone()
    }

    /// Until what it holds is there again, as what runs in the background sees to.
    fn renewed(&self, node: &Server) {
        for _ in 0..3000 {
            let epochs = &node.app.vault.epochs;
            let renewed = self.runtime.block_on(epochs.renew()).is_ok();
            if renewed && epochs.exchange().unwrap().answers() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        unreachable!("Redis is never back");
    }
}

fn no_code() -> Value {
    let data = json!({"number": new_number(), "expiration_month": 7, "expiration_year": 2031});
    json!({"type": "card", "data": data})
}

#[track_caller]
fn is_unavailable(reply: &Reply) {
    reply.refused(503, "try again");
    assert!(reply.headers.contains_key("retry-after"), "{:?}", reply.headers);
}

#[test]
fn each_node_shows_the_codes_of_the_other() {
    let scene = Scene::new();
    let (key, nodes) = (&scene.keys.private, [(&scene.one, &scene.two), (&scene.two, &scene.one)]);
    for (maker, reader) in nodes {
        let id = scene.made(maker);
        assert_eq!(scene.code(reader, &id), "123");
        let listed = reader.fetch(key, "/v2/tokens?size=100").is(200);
        let listed = listed["data"].as_array().unwrap().iter().find(|it| it["id"] == id.as_str());
        assert_eq!(listed.unwrap()["data"]["cvc"], "123");
        let numbered = reader.fetch(key, &format!("/tokens?id={id}")).is(200);
        assert_eq!(numbered["data"][0]["data"]["cvc"], "123");
        let body = json!({"code": format!("{{{{ {id} | json: '$.cvc' }}}}")});
        assert_eq!(reader.post(key, "/detokenize", &body).is(200)["code"], "123");
        let patched = reader.patch(key, &id, &json!({"metadata": {"by": "other"}})).is(200);
        assert_eq!(patched["data"]["cvc"], "123");
        let patched = reader.patch(key, &id, &json!({"data": {"cvc": "456"}})).is(200);
        assert_eq!(
            (&patched["data"]["cvc"], scene.code(maker, &id)),
            (&json!("456"), json!("456"))
        );
        let intent = text(&maker.post(key, "/token-intents", &card(&new_number())).is(201), "id");
        let body = json!({"c": format!("{{{{ token_intent: {intent} | json: '$.data.cvc' }}}}")});
        assert_eq!(reader.post(key, "/detokenize", &body).is(200)["c"], "123");
    }
}

/// A duplicate that the other node made is shown with its code, also where it is updated.
#[test]
fn a_duplicate_is_shown_with_the_code_of_the_other_node() {
    let scene = Scene::new();
    let updating = Settings {
        deduplicate_tokens: true,
        token_deduplication_behavior: scrip_core::policy::DeduplicationBehavior::UpdateExisting,
        ..Settings::default()
    };
    for settings in [Settings { deduplicate_tokens: true, ..Settings::default() }, updating] {
        let keys = scene.one.tenant(settings);
        scene.runtime.block_on(scene.two.app.reload()).unwrap();
        let with_code = card(&new_number());
        let made = scene.one.created(&keys.private, &with_code);
        let mut without = with_code.clone();
        without["data"].as_object_mut().unwrap().remove("cvc");
        let third = scene.three();
        let again = third.create(&keys.private, &without);
        let again = again.json();
        assert_eq!((&again["id"], &again["data"]["cvc"]), (&made["id"], &json!("123")), "{again}");
    }
}

#[test]
fn redis_is_asked_once_for_each_epoch_and_never_for_what_shows_no_code() {
    let scene = Scene::new();
    let rule = grant("/", Transform::Mask, &[Permission::TokenRead]);
    let masked = scene.one.rules(&scene.keys.tenant, vec![rule]);
    scene.runtime.block_on(scene.two.app.reload()).unwrap();
    let id = text(&scene.one.created(&scene.keys.private, &no_code()), "id");
    scene.two.get(&scene.keys.private, &id).is(200);
    assert_eq!(scene.asked(), [0, 0], "nobody spoke of a code");
    let ids: Vec<_> = (0..20).map(|_| scene.made(&scene.one)).collect();
    ids.iter().for_each(|it| drop(scene.two.get(&masked, it).is(200)));
    assert_eq!(scene.asked()[1], 0, "a mask shows none");
    for id in &ids {
        assert_eq!(scene.code(&scene.two, id), "123");
        assert_eq!(scene.code(&scene.one, id), "123");
    }
    // An epoch may have ended meanwhile.
    assert!(scene.asked().iter().all(|it| (1..=2).contains(it)), "{:?}", scene.asked());
}

#[test]
fn without_redis_cards_are_as_ever_and_codes_are_not_told_to_be_missing() {
    let mut scene = Scene::new();
    let key = scene.keys.private.clone();
    let rule = grant("/", Transform::Mask, &[Permission::TokenRead]);
    let masked = scene.one.rules(&scene.keys.tenant, vec![rule]);
    scene.runtime.block_on(scene.two.app.reload()).unwrap();
    let id = scene.made(&scene.one);
    scene.redis.kill();
    let rows = scene.one.rows(&scene.keys.tenant, "tokens");
    is_unavailable(&scene.two.create(&key, &card(&new_number())));
    is_unavailable(&scene.two.post(&key, "/token-intents", &card(&new_number())));
    is_unavailable(&scene.two.patch(&key, &id, &json!({"data": {"cvc": "456"}})));
    let both = json!({"a": card(&new_number()), "b": no_code()});
    is_unavailable(&scene.two.post(&key, "/tokenize", &both));
    assert_eq!(scene.one.rows(&scene.keys.tenant, "tokens"), rows, "nothing is half done");
    // What breaks a rule is told first.
    let mut wrong = card("4242424242424241");
    wrong["data"]["cvc"] = json!("123");
    scene.two.create(&key, &wrong).invalid("data.number");
    is_unavailable(&scene.two.get(&key, &id));
    is_unavailable(&scene.two.fetch(&key, "/v2/tokens"));
    is_unavailable(&scene.two.patch(&key, &id, &json!({"metadata": {"a": "b"}})));
    scene.two.get(&masked, &id).is(200);
    let plain = text(&scene.two.created(&key, &no_code()), "id");
    scene.two.get(&key, &plain).is(200);
    // The other one has its key at hand.
    assert_eq!(scene.code(&scene.one, &id), "123");
    assert_eq!(scene.two.fetch(&key, "/readyz").status, 200);

    // What Redis lost, whoever holds it brings back.
    assert!(scene.redis.run());
    scene.renewed(&scene.one);
    scene.renewed(&scene.two);
    assert_eq!(scene.code(&scene.two, &id), "123");
}

#[test]
fn when_redis_and_all_nodes_lost_it_a_code_is_gone_and_its_card_is_not() {
    let scene = Scene::new();
    let id = scene.made(&scene.two);
    let Scene { redis, one, two, keys, runtime: _runtime, .. } = scene;
    drop(two);
    let () = redis.ask(&["FLUSHALL"]);
    let found = one.get(&keys.private, &id).is(200);
    assert_eq!(
        (&found["data"]["cvc"], &found["data"]["expiration_month"]),
        (&Value::Null, &json!(7))
    );
    let updated = one.patch(&keys.private, &id, &json!({"data": {"cvc": "456"}})).is(200);
    assert_eq!(updated["data"]["cvc"], "456");
}

/// Nodes that lost sight of each other made two keys for one epoch; each still shows all codes.
#[test]
fn two_keys_of_one_epoch_are_both_known_before_long() {
    let scene = Scene::new();
    let before = scene.made(&scene.one);
    let () = scene.redis.ask(&["FLUSHALL"]);
    let third = scene.three();
    let after = scene.made(&third);
    scene.renewed(&scene.one);
    scene.renewed(&third);
    for node in [&scene.one, &scene.two, &third] {
        for id in [&before, &after] {
            assert_eq!(scene.code(node, id), "123");
        }
    }
}
