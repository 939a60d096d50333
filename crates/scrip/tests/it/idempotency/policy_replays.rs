//! The idempotency key where policy is changed: one effect, and the same answer for as long as the
//! caller may have it.

use scrip_core::policy::Settings;
use serde_json::{Value, json};

use crate::harness::server::{Keys, Reply, SHARED, text};

struct Call {
    method: &'static str,
    path: String,
    key: String,
    body: Option<Value>,
}

impl Call {
    fn new(method: &'static str, path: &str, key: &str, body: Option<Value>) -> Self {
        Self { method, path: path.to_owned(), key: key.to_owned(), body }
    }

    fn once(&self, once: &str) -> Reply {
        self.once_with(once, self.body.as_ref())
    }

    fn once_with(&self, once: &str, body: Option<&Value>) -> Reply {
        let ask = SHARED.ask(self.method, &self.path).key(&self.key).once(once);
        if let Some(body) = body { ask.json(body).send() } else { ask.send() }
    }
}

/// An application: its path.
fn application(keys: &Keys) -> String {
    let body = json!({"name": "x", "type": "private", "permissions": ["token:read"]});
    let made = SHARED.post(&keys.management, "/applications", &body).is(201);
    format!("/applications/{}", text(&made, "id"))
}

fn nonce(keys: &Keys) -> Value {
    SHARED.ask("POST", "/sessions").key(&keys.public).send().is(201)["nonce"].clone()
}

/// Everything that changes policy and has a body to repeat, or none.
fn calls(keys: &Keys) -> Vec<Call> {
    let rights = json!({"name": "once", "type": "public", "permissions": ["token:create"]});
    let (management, application) = (&keys.management, application(keys));
    let update = json!({"name": "once", "permissions": ["token:read"]});
    let lends = json!({"nonce": nonce(keys), "permissions": ["token:read"]});
    let tenant = json!({"name": "once"});
    vec![
        Call::new("POST", "/applications", management, Some(rights)),
        Call::new("PUT", &application, management, Some(update)),
        Call::new("POST", &format!("{application}/keys"), management, None),
        Call::new("PUT", "/tenants/self", management, Some(tenant)),
        Call::new("POST", "/sessions/authorize", &keys.private, Some(lends)),
    ]
}

/// How much policy a tenant has, and how often it was changed.
fn changes(keys: &Keys) -> Vec<i64> {
    let count = |table: &str| SHARED.rows(&keys.tenant, table);
    ["applications", "api_keys", "access_sessions", "audit"].map(count).to_vec()
}

#[test]
fn a_repeated_change_has_one_effect_and_one_answer() {
    let keys = SHARED.tenant(Settings::default());
    for (at, call) in calls(&keys).iter().enumerate() {
        let once = format!("change-{at}");
        let first = call.once(&once);
        assert!((200..=204).contains(&first.status), "{}: {}", call.path, first.text);
        let before = changes(&keys);
        let other = json!({"name": 7, "nonce": "another"});
        for body in [call.body.as_ref(), Some(&other)] {
            let again = call.once_with(&once, body);
            let same = (again.status, &again.text) == (first.status, &first.text);
            assert!(same, "{}: {} then {}", call.path, first.text, again.text);
            let form = |it: &Reply| it.headers.get("content-type").cloned();
            assert_eq!(form(&again), form(&first));
        }
        assert_eq!(changes(&keys), before, "{}", call.path);
        // Another key is another request; only a nonce does not come twice.
        let used = call.path.ends_with("authorize");
        let another = call.once(&format!("another-{at}"));
        assert_eq!(another.status, if used { 409 } else { first.status }, "{}", another.text);
        assert_eq!(changes(&keys) == before, used, "{}", call.path);
    }
}

#[test]
fn a_repeated_answer_shows_the_same_key_and_it_works() {
    let keys = SHARED.tenant(Settings::default());
    let calls = calls(&keys);
    for call in [&calls[0], &calls[2]] {
        // One for each: the second call would be given the first one's answer.
        let once = format!("shown by {}", call.path);
        let first = text(&call.once(&once).is(201), "key");
        assert_eq!(text(&call.once(&once).is(201), "key"), first);
        SHARED.fetch(&first, "/applications/key").is(200);
    }
    let authorized = [calls[4].once("lent"), calls[4].once("lent")];
    for reply in &authorized {
        assert_eq!((reply.status, reply.text.as_str()), (204, ""));
        assert!(!reply.headers.contains_key("content-type"), "there is no content");
    }
    calls[4].once("lent-again").refused(409, "used before");
}

/// Every browser has the public key: whoever guesses an idempotency key must not be given a session.
#[test]
fn a_session_is_never_given_twice() {
    let keys = SHARED.tenant(Settings::default());
    let begin = || SHARED.ask("POST", "/sessions").key(&keys.public).once("order-7").send().is(201);
    let (one, two) = (begin(), begin());
    assert_ne!(one["session_key"], two["session_key"]);
    let body = json!({"type": "token", "data": 1});
    let token = SHARED.ask("POST", "/tokens").key(&keys.public).once("order-7").json(&body);
    assert_eq!(token.send().is(201)["type"], "token");
}

#[test]
fn whoever_lost_the_right_has_no_replay() {
    let keys = SHARED.tenant(Settings::default());
    let all = json!(["application:create", "application:update", "tenant:update"]);
    let body = |permissions: &Value| json!({"name": "m", "type": "management", "permissions": permissions});
    let made = SHARED.post(&keys.management, "/applications", &body(&all)).is(201);
    let (path, key) = (format!("/applications/{}", text(&made, "id")), text(&made, "key"));
    let grant = |permissions: &Value| {
        SHARED.put(&keys.management, &path, &body(permissions)).is(200);
    };
    let needs = ["application:create", "application:update", "application:create", "tenant:update"];
    let mut calls = calls(&keys);
    calls.truncate(needs.len());
    for call in &mut calls {
        call.key.clone_from(&key);
    }
    for (at, (call, needed)) in calls.iter().zip(needs).enumerate() {
        let once = format!("lost-{at}");
        let first = call.once(&once);
        assert!([200, 201].contains(&first.status), "{}", first.text);
        let mut others = all.clone();
        others.as_array_mut().unwrap().retain(|it| it != needed);
        grant(&others);
        call.once(&once).refused(403, needed);
        // Nor by way of a route that is still open to it.
        calls[(at + 1) % calls.len()].once(&once).refused(403, needed);
        grant(&all);
        assert_eq!(call.once(&once).text, first.text);
    }
}

#[test]
fn token_intent_replay_needs_the_permission_in_the_containers_of_the_intent() {
    let keys = SHARED.tenant(Settings::default());
    let application = |container: &str| {
        let permissions = ["token-intent:create"];
        let rule = json!({"description": "intents", "priority": 1, "container": container,
            "transform": "mask", "permissions": permissions});
        json!({"name": "checkout", "type": "private", "rules": [rule]})
    };
    let created = SHARED.post(&keys.management, "/applications", &application("/first/")).is(201);
    let (path, key) = (format!("/applications/{}", text(&created, "id")), text(&created, "key"));
    let body =
        json!({"type": "card_number", "data": "4242424242424242", "containers": ["/first/"]});
    let create =
        || SHARED.ask("POST", "/token-intents").key(&key).once("intent").json(&body).send();
    let first = create();
    assert_eq!(first.status, 201, "{}", first.text);
    assert_eq!(create().text, first.text);
    SHARED.put(&keys.management, &path, &application("/second/")).is(200);
    create().refused(403, "token-intent:create");
}

#[test]
fn what_failed_is_asked_anew() {
    let keys = SHARED.tenant(Settings::default());
    for (at, call) in calls(&keys).iter().enumerate().filter(|(_, it)| it.body.is_some()) {
        let once = format!("failed-{at}");
        call.once_with(&once, Some(&json!({"name": "", "nonce": 7}))).refused(400, "");
        assert!((200..=204).contains(&call.once(&once).status));
    }
}

#[test]
fn deletions_take_no_idempotency_key() {
    let keys = SHARED.tenant(Settings::default());
    let path = application(&keys);
    let delete = Call::new("DELETE", &path, &keys.management, None);
    delete.once("deleted").is(204);
    delete.once("deleted").refused(404, "no such thing");
}
