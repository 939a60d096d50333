//! List Connection Formulas: four ways to one array, and the document about it.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use scrip_core::policy::{ApplicationKind, Permission};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SHARED_SERVER, TestResponse, text_field};

const PATHS: [&str; 2] =
    ["/orchestration/connection_formulas", "/orchestration/connection/formulas"];

const FLAGS: [&str; 6] = [
    "three_d_secure_pass_through",
    "delayed_capture",
    "partial_capture",
    "partial_refunds",
    "refunds",
    "zero_auth",
];

/// As the interface names them.
#[rustfmt::skip]
const NAMES: [(&str, &str); 18] = [
    ("adyen-card", "Adyen"), ("authipay-card", "Authipay"), ("authorizenet-card", "Authorize.net"),
    ("braintree-card", "Braintree"), ("chaseorbital-card", "Chase Orbital"),
    ("checkoutcom-card", "Checkout.com"), ("cybersource-card", "CyberSource"),
    ("dlocal-card", "dLocal"), ("ebanx-card", "EBANX"), ("fiserv-card", "Fiserv"),
    ("nmi-card", "NMI"), ("nuvei-card", "Nuvei"), ("planet-card", "Planet"),
    ("razorpay-card", "Razorpay"), ("stripe-card", "Stripe"),
    ("trustpayments-card", "Trust Payments"), ("usaepay-card", "USAePay"),
    ("worldpayvap-card", "Worldpay (VAP)"),
];

fn list_formulas() -> Vec<Value> {
    SHARED_SERVER.get_path(&ACME.private, PATHS[0]).expect_status(200).as_array().unwrap().clone()
}

fn attribute_names(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn both_methods_and_paths_return_the_same_formulas() {
    let same = SHARED_SERVER.get_path(&ACME.private, PATHS[0]).text;
    let check = |reply: &TestResponse| {
        assert_eq!((reply.status, &reply.text), (200, &same));
        assert_eq!(reply.headers["content-type"], "application/json; charset=utf-8");
        assert_eq!(reply.headers["cache-control"], "no-store");
        assert!(!reply.headers["bt-trace-id"].is_empty());
    };
    for path in PATHS {
        for method in ["GET", "POST"] {
            check(&SHARED_SERVER.request(method, path).key(&ACME.private).send());
            check(&SHARED_SERVER.request(method, &format!("{path}/")).key(&ACME.private).send());
        }
        for method in ["PUT", "PATCH", "DELETE"] {
            let reply = SHARED_SERVER.request(method, path).key(&ACME.private).send();
            assert_eq!(reply.status, 405, "{method} {path}");
        }
    }
}

/// There is nothing that a body or a key could change.
#[test]
fn body_and_idempotency_key_are_ignored() {
    let same = SHARED_SERVER.get_path(&ACME.private, PATHS[0]).text;
    for path in PATHS {
        let ask = || {
            SHARED_SERVER.request("POST", path).key(&ACME.private).idempotency_key("same for all")
        };
        for reply in [
            ask().send(),
            ask().json(&json!({"id": "stripe-card"})).send(),
            ask().body("application/json", "{").send(),
            ask().body("text/plain", "hello").send(),
        ] {
            assert_eq!((reply.status, &reply.text), (200, &same));
        }
    }
}

#[test]
fn every_formula_has_the_documented_attributes() {
    let formulas = list_formulas();
    let found: Vec<_> =
        formulas.iter().map(|it| (text_field(it, "id"), text_field(it, "display_name"))).collect();
    assert_eq!(found, NAMES.map(|(id, name)| (id.to_owned(), name.to_owned())));
    for formula in &formulas {
        let id = &formula["id"];
        let all = "id display_name method fields supported_currencies supported_countries supported_features";
        assert_eq!(attribute_names(formula), all.split(' ').collect(), "{id}");
        assert_eq!(formula["method"], "card");
        for field in formula["fields"].as_array().unwrap() {
            let all = "key display_name required format secret";
            assert_eq!(attribute_names(field), all.split(' ').collect(), "{id}");
            assert_eq!(field["format"], "text");
            assert!(field["required"].is_boolean() && field["secret"].is_boolean(), "{id}");
            assert!(
                !text_field(field, "key").is_empty()
                    && !text_field(field, "display_name").is_empty()
            );
        }
        assert!(formula["fields"].as_array().unwrap().iter().any(|it| it["secret"] == true));
        for (list, length) in [("supported_currencies", 3), ("supported_countries", 2)] {
            let codes = formula[list].as_array().unwrap();
            assert!(!codes.is_empty(), "{id} {list}");
            assert!(codes.iter().all(|it| it.as_str().unwrap().len() == length), "{id} {list}");
        }
        let features = &formula["supported_features"];
        assert_eq!(attribute_names(features), FLAGS.into_iter().chain(["void"]).collect(), "{id}");
        assert!(FLAGS.iter().all(|it| features[it].is_boolean()), "{id}");
        assert_eq!(attribute_names(&features["void"]), ["voidAllowed"].into());
        assert!(features["void"]["voidAllowed"].is_boolean(), "{id}");
    }
}

/// One whole, so that no attribute takes the place of another.
#[test]
fn razorpay_formula_has_the_expected_values() {
    let formulas = list_formulas();
    let razorpay = formulas.iter().find(|it| it["id"] == "razorpay-card").unwrap();
    let fields = json!([
        {"key": "key_id", "display_name": "Key ID", "required": true, "format": "text", "secret": false},
        {"key": "key_secret", "display_name": "Key secret", "required": true, "format": "text", "secret": true},
    ]);
    assert_eq!(razorpay["fields"], fields);
    assert_eq!(razorpay["supported_countries"], json!(["IN", "MY", "SG", "US"]));
    assert!(razorpay["supported_currencies"].as_array().unwrap().contains(&json!("INR")));
    let features = json!({
        "three_d_secure_pass_through": false,
        "delayed_capture": true,
        "partial_capture": false,
        "partial_refunds": true,
        "refunds": true,
        "zero_auth": false,
        "void": {"voidAllowed": false},
    });
    assert_eq!(razorpay["supported_features"], features);
    let nmi = formulas.iter().find(|it| it["id"] == "nmi-card").unwrap();
    assert_eq!(nmi["fields"][1]["required"], false);
    assert_eq!(nmi["supported_features"]["void"], json!({"voidAllowed": true}));
}

#[test]
fn list_connection_formulas_requires_its_permission() {
    let permission = "orchestration:connection_formulas";
    let tenant = &ACME.tenant;
    let alone = SHARED_SERVER.key_with_permissions(
        tenant,
        ApplicationKind::Private,
        &[Permission::ConnectionFormulas],
    );
    let without = SHARED_SERVER.key_with_permissions(
        tenant,
        ApplicationKind::Private,
        &[Permission::TokenRead],
    );
    for path in PATHS {
        for method in ["GET", "POST"] {
            let ask = || SHARED_SERVER.request(method, path);
            ask().send().expect_problem(401, "BT-API-KEY");
            ask().key("unknown").send().expect_problem(401, "BT-API-KEY");
            for key in [&without, &ACME.public, &ACME.management] {
                ask().key(key).send().expect_problem(403, permission);
            }
            assert_eq!(ask().key(&alone).send().status, 200);
        }
    }
}

/// The table of the document, made of the answer.
fn formula_table() -> String {
    let mut table =
        String::from("| formula | processor | credentials | currencies | countries |\n");
    table.push_str("|---|---|---|---|---|\n");
    for formula in list_formulas() {
        let credential = |field: &Value| {
            let mark = if field["secret"] == true { " (secret)" } else { "" };
            let need = if field["required"] == true { "" } else { " (optional)" };
            format!("`{}`{mark}{need}", text_field(field, "key"))
        };
        let fields: Vec<_> = formula["fields"].as_array().unwrap().iter().map(credential).collect();
        let count = |list: &str| formula[list].as_array().unwrap().len();
        let (id, name) = (text_field(&formula, "id"), text_field(&formula, "display_name"));
        let (currencies, countries) = (count("supported_currencies"), count("supported_countries"));
        let fields = fields.join(", ");
        writeln!(table, "| `{id}` | {name} | {fields} | {currencies} | {countries} |").unwrap();
    }
    table
}

#[test]
fn connection_formulas_page_has_the_current_table() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/connection-formulas.md");
    let document = fs::read_to_string(&file).unwrap();
    let start = document.find("| formula |").expect("a table");
    let length: usize = document[start..]
        .split_inclusive('\n')
        .take_while(|it| it.starts_with('|'))
        .map(str::len)
        .sum();
    let (before, after) = (&document[..start], &document[start + length..]);
    let expected = format!("{before}{}{after}", formula_table());
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&file, &expected).unwrap();
        return;
    }
    assert_eq!(document, expected, "if this is meant, run with SCRIP_TEST_GOLDEN=write");
}
