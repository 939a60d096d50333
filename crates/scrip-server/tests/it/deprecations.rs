//! What the interface has given up.

use serde_json::{Value, json};

use crate::server::{ACME, Reply, SHARED, card, new_number, text};

/// The three headers of a deprecated operation, in an answer that a browser can read them from.
#[track_caller]
pub(crate) fn deprecated(reply: &Reply, since: &str, sunset: &str, successor: &str) {
    assert_eq!(reply.headers["deprecation"], since);
    assert_eq!(reply.headers["sunset"], sunset);
    let link = format!("<{successor}>; rel=\"successor-version\"");
    assert_eq!(reply.headers["link"], link);
    let exposed = reply.headers["access-control-expose-headers"].split(", ");
    let exposed: Vec<_> = exposed.collect();
    for name in ["deprecation", "sunset", "link"] {
        assert!(exposed.contains(&name), "{name} is not in {exposed:?}");
    }
}

#[track_caller]
fn not_deprecated(reply: &Reply) {
    for name in ["deprecation", "sunset", "link"] {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
}

#[test]
fn regeneration_is_gone_and_leads_to_the_keys_of_the_application() {
    let regenerate = |path: &str, key: &str| SHARED.ask("POST", path).key(key).send();
    let marked = |reply: &Reply, successor: &str| {
        deprecated(reply, "@1713312000", "Thu, 17 Oct 2024 00:00:00 GMT", successor);
    };
    let application = SHARED.fetch(&ACME.management, "/applications/key").is(200);
    let keys = format!("/applications/{}/keys", text(&application, "id"));
    let path = format!("/applications/{}/regenerate", text(&application, "id"));
    for path in [path.clone(), format!("{path}/")] {
        let gone = regenerate(&path, &ACME.management);
        gone.refused(410, "create another key at /applications/{id}/keys");
        marked(&gone, &keys);
    }
    SHARED.fetch(&ACME.management, &keys).is(200);
    // Who is not known is told so, and all the same that there is nothing to come back for.
    let unknown = regenerate(&path, "nobodys");
    unknown.refused(401, "BT-API-KEY");
    marked(&unknown, &keys);
}

#[test]
fn what_is_not_deprecated_does_not_say_so() {
    not_deprecated(&SHARED.fetch(&ACME.management, "/applications"));
    not_deprecated(&SHARED.create(&ACME.private, &json!({"type": "token", "data": 1})));
    not_deprecated(&SHARED.get(&ACME.private, "nobodys"));
    not_deprecated(&SHARED.ask("GET", "/nowhere").send());
}

/// What it once could hold, and what it never could.
fn privacies() -> [Value; 4] {
    let whole =
        json!({"classification": "general", "impact_level": "low", "restriction_policy": "redact"});
    [whole, json!({"restriction_policy": 7}), json!("open"), json!(null)]
}

#[test]
fn privacy_is_ignored_in_a_create() {
    for privacy in privacies() {
        let mut body = card(&new_number());
        let plain = SHARED.created(&ACME.private, &body);
        body["privacy"] = privacy;
        let made = SHARED.created(&ACME.private, &body);
        assert!(made.get("privacy").is_none(), "{made}");
        assert_eq!(made["containers"], json!(["/pci/high/"]));
        let read = SHARED.get(&ACME.private, &text(&made, "id")).is(200);
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(read[name], plain[name], "{name}");
        }
        assert!(read.get("privacy").is_none(), "{read}");
    }
}

#[test]
fn privacy_is_ignored_in_an_update() {
    let before = SHARED.created(&ACME.private, &card(&new_number()));
    let id = text(&before, "id");
    for privacy in privacies() {
        let patch = json!({"privacy": privacy, "metadata": {"patched": "yes"}});
        let after = SHARED.patch(&ACME.private, &id, &patch).is(200);
        assert_eq!(after["metadata"], json!({"patched": "yes"}));
        for name in ["containers", "mask", "data", "card", "fingerprint", "type"] {
            assert_eq!(after[name], before[name], "{name}");
        }
        assert!(after.get("privacy").is_none(), "{after}");
    }
}

/// What was deprecated of them was never here; nor are they, yet.
#[test]
fn there_are_no_reactors_and_no_proxies() {
    for path in ["/reactors", "/reactors/x/react", "/reactors/x/react-async", "/proxies"] {
        let body = json!({"callback_url": "https://shop.example", "request_reactor_id": "x"});
        SHARED.post(&ACME.management, path, &body).refused(404, "path");
    }
}
