//! List Connection Formulas: four routes that return one array, and the page about it.

use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestResponse, text_field};

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

/// The ids and the display names of all formulas.
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
    SERVER.get_path(&ACME.private, PATHS[0]).expect_status(200).as_array().unwrap().clone()
}

fn attribute_names(object: &Value) -> BTreeSet<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn both_methods_and_paths_return_the_same_formulas() {
    let expected_text = SERVER.get_path(&ACME.private, PATHS[0]).text;
    let check_response = |response: &TestResponse| {
        assert_eq!((response.status, &response.text), (200, &expected_text));
        assert_eq!(response.headers["content-type"], "application/json; charset=utf-8");
        assert_eq!(response.headers["cache-control"], "no-store");
        assert!(!response.headers["bt-trace-id"].is_empty());
    };
    for path in PATHS {
        for method in ["GET", "POST"] {
            check_response(&SERVER.request(method, path).key(&ACME.private).send());
            check_response(&SERVER.request(method, &format!("{path}/")).key(&ACME.private).send());
        }
        for method in ["PUT", "PATCH", "DELETE"] {
            let response = SERVER.request(method, path).key(&ACME.private).send();
            assert_eq!(response.status, 405, "{method} {path}");
        }
    }
}

#[test]
fn list_connection_formulas_ignores_body_and_idempotency_key() {
    let expected_text = SERVER.get_path(&ACME.private, PATHS[0]).text;
    for path in PATHS {
        let request =
            || SERVER.request("POST", path).key(&ACME.private).idempotency_key("same for all");
        for response in [
            request().send(),
            request().json(&json!({"id": "stripe-card"})).send(),
            request().body("application/json", "{").send(),
            request().body("text/plain", "hello").send(),
        ] {
            assert_eq!((response.status, &response.text), (200, &expected_text));
        }
    }
}

#[test]
fn every_formula_has_the_documented_attributes() {
    let formulas = list_formulas();
    let names: Vec<_> =
        formulas.iter().map(|it| (text_field(it, "id"), text_field(it, "display_name"))).collect();
    assert_eq!(names, NAMES.map(|(id, name)| (id.to_owned(), name.to_owned())));
    for formula in &formulas {
        let id = &formula["id"];
        let expected_names = "id display_name method fields supported_currencies supported_countries supported_features";
        assert_eq!(attribute_names(formula), expected_names.split(' ').collect(), "{id}");
        assert_eq!(formula["method"], "card");
        for field in formula["fields"].as_array().unwrap() {
            let expected_names = "key display_name required format secret";
            assert_eq!(attribute_names(field), expected_names.split(' ').collect(), "{id}");
            assert_eq!(field["format"], "text");
            assert!(field["required"].is_boolean() && field["secret"].is_boolean(), "{id}");
            assert!(!text_field(field, "key").is_empty());
            assert!(!text_field(field, "display_name").is_empty());
        }
        assert!(formula["fields"].as_array().unwrap().iter().any(|it| it["secret"] == true));
        for (list_name, length) in [("supported_currencies", 3), ("supported_countries", 2)] {
            let codes = formula[list_name].as_array().unwrap();
            assert!(!codes.is_empty(), "{id} {list_name}");
            let have_length = codes.iter().all(|it| it.as_str().unwrap().len() == length);
            assert!(have_length, "{id} {list_name}");
        }
        let features = &formula["supported_features"];
        assert_eq!(attribute_names(features), FLAGS.into_iter().chain(["void"]).collect(), "{id}");
        assert!(FLAGS.iter().all(|it| features[it].is_boolean()), "{id}");
        assert_eq!(attribute_names(&features["void"]), ["voidAllowed"].into());
        assert!(features["void"]["voidAllowed"].is_boolean(), "{id}");
    }
}

/// Compares one complete formula, so that swapped attributes are detected.
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

/// Generates the Markdown table from the response.
fn formula_table() -> String {
    let mut table =
        String::from("| formula | processor | credentials | currencies | countries |\n");
    table.push_str("|---|---|---|---|---|\n");
    for formula in list_formulas() {
        let credential = |field: &Value| {
            let secret_mark = if field["secret"] == true { " (secret)" } else { "" };
            let optional_mark = if field["required"] == true { "" } else { " (optional)" };
            format!("`{}`{secret_mark}{optional_mark}", text_field(field, "key"))
        };
        let fields: Vec<_> = formula["fields"].as_array().unwrap().iter().map(credential).collect();
        let count_items = |list: &str| formula[list].as_array().unwrap().len();
        let (id, name) = (text_field(&formula, "id"), text_field(&formula, "display_name"));
        let (currencies, countries) =
            (count_items("supported_currencies"), count_items("supported_countries"));
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
    let (text_before, text_after) = (&document[..start], &document[start + length..]);
    let expected = format!("{text_before}{}{text_after}", formula_table());
    if std::env::var_os("SCRIP_TEST_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&file, &expected).unwrap();
        return;
    }
    assert_eq!(document, expected, "if the change is intended, run with SCRIP_TEST_GOLDEN=write");
}
