//! BIN data: imported beside a running server, and seen in its answers.

use std::{fs, os::unix::fs::PermissionsExt};

use scrip_testing::process::harness::{ProcessHarness, Running, eventually};
use serde_json::{Value, json};

use crate::operator::commands::{json, opened, text};

const NUMBER: &str = "4012888888881881";
const GERMAN: &str = "bin_start,bin_end,brand,funding,country,additional\n\
    401288,,visa,debit,DE,\n";
/// Of a public list, with a row that is no good.
const BRITISH: &str = "bin,brand,type,category,issuer,alpha_2,alpha_3,country\n\
    40128888,VISA,CREDIT,GOLD,\"A BANK, PLC\",GB,GBR,United Kingdom\n\
    secret,VISA,CREDIT,GOLD,A BANK,GB,GBR,United Kingdom\n\
    510510,MASTERCARD,DEBIT,,A BANK,GB,GBR,United Kingdom\n";

fn write(house: &ProcessHarness, name: &str, list: &str) -> String {
    let path = house.path(name);
    fs::write(&path, list).unwrap();
    path.display().to_string()
}

/// What the server tells of a new card.
fn card(server: &Running, key: &str) -> Value {
    let agent = ureq::Agent::new_with_defaults();
    let body = json!({"type": "card", "data": {"number": NUMBER}}).to_string();
    let request = agent.post(format!("{}/tokens", server.url));
    let request = request.header("BT-API-KEY", key).content_type("application/json");
    let answer = request.send(body).expect("an answer").into_body().read_to_string().unwrap();
    serde_json::from_str::<Value>(&answer).expect("JSON")["card"].take()
}

#[track_caller]
fn becomes(server: &Running, key: &str, name: &str, expected: &Value) {
    assert!(eventually(|| card(server, key)[name] == *expected), "{}", card(server, key));
}

#[test]
fn a_running_server_takes_over_what_is_imported() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let server = opened(&house);
    let built_in = json!({"bin": "40128888", "last4": "1881", "brand": "visa"});
    assert_eq!(card(&server, &key), built_in);
    assert_eq!(json(&house, &["bin", "status"])["imported"], Value::Null);

    let said = json(&house, &["bin", "import", &write(&house, "german.csv", GERMAN)]);
    assert_eq!((&said["rows"], &said["imported"]), (&json!(1), &json!(1)));
    let file = house.data().join("bin-data");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    becomes(&server, &key, "funding", &json!("debit"));
    let german = card(&server, &key);
    assert_eq!(
        (&german["bin"], &german["authentication"]),
        (&json!("401288"), &json!("sca_required"))
    );
    let status = json(&house, &["bin", "status"]);
    assert_eq!((&status["imported"], &status["server"]["rows"]), (&json!(1), &json!(1)));

    let output = house.run(&["bin", "import", &write(&house, "british.csv", BRITISH)]);
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("imported 2 of 3 rows"), "{output}");
    assert!(
        output.contains("1 row refused, because its BIN is not made of digits: line 3"),
        "{output}"
    );
    assert!(!output.contains("secret"), "{output}");
    becomes(&server, &key, "funding", &json!("credit"));
    let british = card(&server, &key);
    assert_eq!(british["issuer_country"]["numeric"], "826");

    // Damaged, and in its place all at once.
    let mut bytes = fs::read(&file).unwrap();
    bytes[30] ^= 1;
    fs::write(house.path("damaged"), &bytes).unwrap();
    fs::rename(house.path("damaged"), &file).unwrap();
    house.logged("BIN data is refused");
    assert_eq!(card(&server, &key), british);
    house.refused(&["bin", "status"], "its checksum fails");
    house.refused(&["doctor"], "checks found something wrong");

    assert!(text(&house, &["bin", "remove"]).contains("removed"));
    becomes(&server, &key, "funding", &Value::Null);
    assert_eq!(card(&server, &key), built_in);
    house.refused(&["bin", "remove"], "no BIN data was imported");
    assert!(text(&house, &["bin", "status"]).contains("the built-in ranges"));
}

#[test]
fn a_server_starts_with_what_was_imported_or_without_what_is_damaged() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    json(&house, &["bin", "import", &write(&house, "german.csv", GERMAN)]);
    drop(fs::remove_file(house.path("log")));
    let server = opened(&house);
    assert_eq!(card(&server, &key)["funding"], "debit");
    drop(server);

    fs::write(house.data().join("bin-data"), "SCRIPBIN").unwrap();
    drop(fs::remove_file(house.path("log")));
    let server = opened(&house);
    house.logged("it is cut short or too long");
    assert_eq!(card(&server, &key)["funding"], Value::Null);
    assert_eq!(card(&server, &key)["brand"], "visa");
}

#[test]
fn what_cannot_be_imported_changes_nothing() {
    let house = ProcessHarness::founded(crate::SCRIP);
    json(&house, &["bin", "import", &write(&house, "german.csv", GERMAN)]);
    let before = fs::read(house.data().join("bin-data")).unwrap();
    let most = "bin,brand\nx,visa\ny,visa\n424242,visa\n";
    house.refused(&["bin", "import", &write(&house, "most.csv", most)], "most of its rows");
    house.refused(
        &["bin", "import", &write(&house, "none.csv", "a,b\n1,2\n")],
        "no column for the BIN",
    );
    house.refused(&["bin", "import", "missing.csv"], "missing.csv cannot be read");
    assert_eq!(fs::read(house.data().join("bin-data")).unwrap(), before);
    let drafts = fs::read_dir(house.data()).unwrap();
    let drafts =
        drafts.filter(|it| it.as_ref().unwrap().path().to_string_lossy().contains("draft"));
    assert_eq!(drafts.count(), 0);
    ProcessHarness::new(crate::SCRIP).refused(&["bin", "status"], "scrip init");
}
