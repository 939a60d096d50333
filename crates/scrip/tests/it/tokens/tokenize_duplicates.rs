//! Tokenize, where some of the tokens are there already, or twice in one request.

use scrip_core::policy::{
    DeduplicationBehavior,
    Permission::{TokenCreate, TokenRead},
    Settings,
    Transform::Reveal,
};
use serde_json::{Value, json};

use crate::harness::server::{ACME, Keys, SHARED, card, grant, new_number};

fn settings(token_deduplication_behavior: DeduplicationBehavior) -> Settings {
    Settings { deduplicate_tokens: true, token_deduplication_behavior, ..Settings::default() }
}

fn reading() -> Keys {
    SHARED.tenant(settings(DeduplicationBehavior::ReadExisting))
}

fn updating() -> Keys {
    SHARED.tenant(settings(DeduplicationBehavior::UpdateExisting))
}

fn described(number: &str, text: &str) -> Value {
    let mut body = card(number);
    body["metadata"] = json!({ (text): "yes" });
    body
}

#[track_caller]
fn tokenize(keys: &Keys, body: &Value) -> Value {
    SHARED.post(&keys.private, "/tokenize", body).is(200)
}

fn read() -> Value {
    json!({"deduplicated": true, "deduplication_behavior": "read_existing"})
}

fn updated() -> Value {
    json!({"deduplicated": true, "deduplication_behavior": "update_existing"})
}

fn new() -> Value {
    json!({"deduplicated": false})
}

#[test]
fn equal_values_of_one_request_become_one_token() {
    let keys = reading();
    let number = new_number();
    let made = tokenize(&keys, &json!([card(&number), "same", [card(&number)], {"a": "same"}, 1]));
    assert_eq!((&made[0]["_extras"], &made[2][0]["_extras"]), (&new(), &read()));
    assert_eq!(made[0]["id"], made[2][0]["id"]);
    assert_eq!(
        (&made[0]["data"], &made[2][0]["data"]["cvc"]),
        (&made[2][0]["data"], &json!("123"))
    );
    assert_eq!(made[1], made[3]["a"]);
    assert_ne!(made[1], made[4]);
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 3);
    // And those of the next request are the same ones.
    let again = tokenize(&keys, &json!(["same", card(&number)]));
    assert_eq!((&again[0], &again[1]["id"]), (&made[1], &made[0]["id"]));
    assert_eq!(SHARED.rows(&keys.tenant, "tokens"), 3);
    assert_eq!(SHARED.rows_where(&keys.tenant, "audit", "outcome = 'deduplicated'"), 4);
}

#[test]
fn the_request_decides_before_the_tenant_does() {
    let number = new_number();
    let once = || {
        let mut body = card(&number);
        body["deduplicate_token"] = json!(true);
        body
    };
    let tokenize = |body: &Value| SHARED.post(&ACME.private, "/tokenize", body).is(200);
    let made = tokenize(&json!([card(&number), card(&number), once(), "same", "same"]));
    assert_ne!(made[0]["id"], made[1]["id"]);
    assert_eq!((&made[2]["id"], &made[2]["_extras"]), (&made[0]["id"], &read()), "the oldest");
    assert_ne!(made[3], made[4]);
    let mut apart = card(&number);
    apart["deduplicate_token"] = json!(false);
    let keys = reading();
    let made =
        SHARED.post(&keys.private, "/tokenize", &json!([apart, apart, card(&number)])).is(200);
    assert_ne!(made[0]["id"], made[1]["id"]);
    assert_eq!(made[0]["id"], made[2]["id"]);
}

#[test]
fn what_is_there_is_updated_with_the_rest_of_the_request() {
    let keys = updating();
    let (known, fresh) = (new_number(), new_number());
    let first = SHARED.created(&keys.private, &described(&known, "first"));
    let mut again = described(&known, "second");
    again["data"]["cvc"] = json!("777");
    let made = tokenize(&keys, &json!({"a": card(&fresh), "b": again, "c": "text"}));
    assert_eq!((&made["a"]["_extras"], &made["b"]["_extras"]), (&new(), &updated()));
    assert_eq!(made["b"]["id"], first["id"]);
    assert_eq!(made["b"]["data"]["cvc"], "777");
    assert_eq!(made["b"]["metadata"], json!({"first": "yes", "second": "yes"}));
    assert!(made["b"]["modified_at"].is_string());
    let read = SHARED.get(&keys.private, first["id"].as_str().unwrap()).is(200);
    assert_eq!((&read["metadata"], &read["data"]), (&made["b"]["metadata"], &made["b"]["data"]));

    // When another one of the request fails, it is not.
    SHARED.created(&keys.private, &json!({"id": "taken", "type": "token", "data": "x"}));
    let taken = json!({"id": "taken", "type": "token", "data": "y"});
    let body = json!([described(&known, "third"), taken]);
    SHARED.post(&keys.private, "/tokenize", &body).refused(409, "id");
    let after = SHARED.get(&keys.private, first["id"].as_str().unwrap()).is(200);
    assert_eq!(after, read);
}

/// One transaction, so one record of it.
#[test]
fn a_create_that_updates_is_one_effect() {
    let keys = updating();
    let number = new_number();
    let audited = || SHARED.rows(&keys.tenant, "audit");
    SHARED.created(&keys.private, &card(&number));
    let before = audited();
    let second = SHARED.created(&keys.private, &described(&number, "second"));
    assert_eq!(second["_extras"], updated());
    assert_eq!(audited(), before + 1);
}

#[test]
fn a_second_one_of_a_request_reads_what_the_first_one_made_of_it() {
    let keys = updating();
    let (known, fresh) = (new_number(), new_number());
    let first = SHARED.created(&keys.private, &card(&known));
    let body = json!([
        described(&known, "one"),
        described(&known, "two"),
        described(&fresh, "one"),
        described(&fresh, "two"),
    ]);
    let made = tokenize(&keys, &body);
    let extras: Vec<_> = made.as_array().unwrap().iter().map(|it| it["_extras"].clone()).collect();
    assert_eq!(extras, [updated(), read(), new(), read()]);
    for (at, id) in [(0, &first["id"]), (1, &first["id"]), (3, &made[2]["id"])] {
        assert_eq!(&made[at]["id"], id);
        assert_eq!(made[at]["metadata"], json!({"one": "yes"}), "{at}");
    }
    // An earlier one that does not deduplicate is one that is there already.
    let other = new_number();
    let mut apart = described(&other, "one");
    apart["deduplicate_token"] = json!(false);
    let made = tokenize(&keys, &json!([apart, described(&other, "two")]));
    assert_eq!((&made[1]["id"], &made[1]["_extras"]), (&made[0]["id"], &read()));
    assert_eq!(made[1]["metadata"], json!({"one": "yes"}));
}

#[test]
fn who_may_not_update_reads_and_who_may_not_read_learns_that_it_is_there() {
    let keys = updating();
    let number = new_number();
    let first = SHARED.created(&keys.private, &described(&number, "first"));
    let body = json!([described(&number, "second"), 1]);
    let reader = SHARED.rules(&keys.tenant, vec![grant("/", Reveal, &[TokenCreate, TokenRead])]);
    let found = SHARED.post(&reader, "/tokenize", &body).is(200);
    assert_eq!((&found[0]["_extras"], &found[0]["metadata"]), (&read(), &first["metadata"]));
    let blind = SHARED.rules(&keys.tenant, vec![grant("/", Reveal, &[TokenCreate])]);
    let found = SHARED.post(&blind, "/tokenize", &body).is(200);
    let outline = json!({
        "id": first["id"], "type": "card", "tenant_id": first["tenant_id"],
        "fingerprint": first["fingerprint"], "containers": ["/pci/high/"], "_extras": read(),
    });
    assert_eq!(found[0], outline);
}

#[test]
fn many_at_once_leave_one_of_each() {
    for keys in [reading(), updating()] {
        let numbers = [new_number(), new_number()];
        let made: Vec<Value> = std::thread::scope(|scope| {
            let client = |at: usize| {
                let (keys, numbers) = (&keys, &numbers);
                scope.spawn(move || {
                    // In either order, so that they stand in each other's way.
                    let (one, two) = (&numbers[at % 2], &numbers[(at + 1) % 2]);
                    let mut made = tokenize(keys, &json!([card(one), card(two), "text"]));
                    if at % 2 == 1 {
                        made.as_array_mut().unwrap().swap(0, 1);
                    }
                    made
                })
            };
            let clients: Vec<_> = (0..24).map(client).collect();
            clients.into_iter().map(|it| it.join().unwrap()).collect()
        });
        for one in &made {
            assert_eq!((&one[0]["id"], &one[1]["id"]), (&made[0][0]["id"], &made[0][1]["id"]));
            assert_eq!(one[2], made[0][2]);
        }
        let new = made.iter().filter(|it| it[0]["_extras"]["deduplicated"] == false).count();
        assert_eq!((new, SHARED.rows(&keys.tenant, "tokens")), (1, 3));
    }
}
