//! Card details by the first digits of a number.

use scrip_core::{policy::TenantSettings, types::TenantKind};
use serde_json::{Value, json};

use crate::harness::server::{ACME, SERVER, TestResponse};

fn find(key: &str, bin: &str) -> TestResponse {
    SERVER.get_path(key, &format!("/enrichments/card-details?bin={bin}"))
}

fn network(brand: &str, funding: &str, country: &str, range: &Value) -> Value {
    json!({"brand": brand, "funding": funding, "issuer": {"country": country}, "binRange": range})
}

#[test]
fn every_key_gets_details_of_sandbox_bins_in_a_test_tenant() {
    for key in [&ACME.public, &ACME.private, &ACME.management] {
        let range = json!([{"binMin": "42424200", "binMax": "42424299"}]);
        let mut expected = network("visa", "credit", "US", &range);
        expected["additional"] = json!([]);
        assert_eq!(find(key, "424242").expect_status(200), expected);
        for (bin, min, max, funding, country, brand) in [
            ("415058", "41505800", "41505899", "credit", "FR", "cartes-bancaires"),
            ("41505809", "41505809", "41505809", "credit", "FR", "cartes-bancaires"),
            ("457100", "45710000", "45710099", "debit", "DK", "dankort"),
            ("4871049", "48710490", "48710499", "debit", "BE", "bancontact"),
        ] {
            let range = json!([{"binMin": min, "binMax": max}]);
            let mut expected = network("visa", funding, country, &range);
            expected["additional"] = json!([network(brand, funding, country, &range)]);
            assert_eq!(find(key, bin).expect_status(200), expected, "{bin}");
        }
    }
}

#[test]
fn production_tenant_gets_the_ranges_of_the_schemes() {
    let keys = SERVER.create_tenant_of_kind(TenantKind::Production, TenantSettings::default());
    let details = find(&keys.public, "415058").expect_status(200);
    let range = json!([{"binMin": "41505800", "binMax": "41505899"}]);
    assert_eq!(details, json!({"brand": "visa", "binRange": range, "additional": []}));
    let dankort = find(&keys.public, "457100").expect_status(200);
    assert_eq!(dankort["additional"][0]["brand"], "dankort");
    for bin in ["999999", "000000", "560000"] {
        find(&keys.public, bin).expect_problem(404, "Not found.");
    }
}

#[test]
fn bin_must_be_six_to_eight_digits() {
    for bin in ["", "42424", "424242424", "4242424242424242", "42424x", "%2B42424"] {
        find(&ACME.public, bin).expect_invalid("bin");
    }
    for query in ["", "?bin=424242&bin=411111", "?BIN=424242"] {
        let path = format!("/enrichments/card-details{query}");
        SERVER.get_path(&ACME.public, &path).expect_invalid("bin");
    }
    let response = SERVER.request("GET", "/enrichments/card-details?bin=424242").send();
    response.expect_problem(401, "BT-API-KEY");
    let response = SERVER.get_path(&ACME.private, "/enrichments/bank-account-verify");
    response.expect_problem(404, "bank account verification");
}
