//! BIN data: imported while a server runs, and visible in its responses.

use std::{fs, os::unix::fs::PermissionsExt};

use scrip_testing::{
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::assert_members,
};
use serde_json::{Value, json};

use crate::operator::commands::{run_json, run_text, serve_unsealed};

const NUMBER: &str = "4012888888881881";
const GERMAN_LIST: &str = "bin_start,bin_end,brand,funding,country,additional\n\
    401288,,visa,debit,DE,\n";
/// A public list with one invalid row.
const BRITISH_LIST: &str = "bin,brand,type,category,issuer,alpha_2,alpha_3,country\n\
    40128888,VISA,CREDIT,GOLD,\"A BANK, PLC\",GB,GBR,United Kingdom\n\
    secret,VISA,CREDIT,GOLD,A BANK,GB,GBR,United Kingdom\n\
    510510,MASTERCARD,DEBIT,,A BANK,GB,GBR,United Kingdom\n";

fn write_list(process: &ProcessHarness, name: &str, list: &str) -> String {
    let path = process.path(name);
    fs::write(&path, list).unwrap();
    path.display().to_string()
}

/// Creates a card and returns its details in the response of the server.
fn create_card_details(server: &RunningServer, key: &str) -> Value {
    let body = json!({"type": "card", "data": {"number": NUMBER}});
    let request = server.request("POST", "/tokens").api_key(key).json(&body);
    request.send().expect_status(201).json()["card"].take()
}

#[track_caller]
fn wait_for_detail(server: &RunningServer, key: &str, name: &str, expected: &Value) {
    assert!(
        becomes_true(|| create_card_details(server, key)[name] == *expected),
        "{}",
        create_card_details(server, key)
    );
}

#[test]
fn running_server_loads_imported_bin_data() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let server = serve_unsealed(&process);
    let built_in = json!({"bin": "40128888", "last4": "1881", "brand": "visa",
        "funding": null, "authentication": null});
    assert_eq!(create_card_details(&server, &key), built_in);
    assert_eq!(run_json(&process, &["bin", "status"])["imported"], Value::Null);

    let output =
        run_json(&process, &["bin", "import", &write_list(&process, "german.csv", GERMAN_LIST)]);
    assert_eq!((&output["rows"], &output["imported"]), (&json!(1), &json!(1)));
    let file = process.data().join("bin-data");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    wait_for_detail(&server, &key, "funding", &json!("debit"));
    let german = create_card_details(&server, &key);
    assert_members(&german, &json!({"bin": "401288", "authentication": "sca_required"}));
    let status = run_json(&process, &["bin", "status"]);
    assert_eq!((&status["imported"], &status["server"]["rows"]), (&json!(1), &json!(1)));

    let output =
        process.run(&["bin", "import", &write_list(&process, "british.csv", BRITISH_LIST)]);
    assert!(output.status.success(), "{output:?}");
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(output.contains("imported 2 of 3 rows"), "{output}");
    assert!(
        output.contains(
            "rejected 1 row, because its BIN contains characters other than digits: line 3"
        ),
        "{output}"
    );
    assert!(!output.contains("secret"), "{output}");
    wait_for_detail(&server, &key, "funding", &json!("credit"));
    let british = create_card_details(&server, &key);
    assert_eq!(british["issuer_country"]["numeric"], "826");

    // Damage the file and replace it atomically.
    let mut bytes = fs::read(&file).unwrap();
    bytes[30] ^= 1;
    fs::write(process.path("damaged"), &bytes).unwrap();
    fs::rename(process.path("damaged"), &file).unwrap();
    process.wait_for_log("loading BIN data failed");
    assert_eq!(create_card_details(&server, &key), british);
    process.assert_fails(&["bin", "status"], "the checksum does not match");
    process.assert_fails(&["doctor"], "checks failed");

    assert!(run_text(&process, &["bin", "remove"]).contains("removed"));
    wait_for_detail(&server, &key, "funding", &Value::Null);
    assert_eq!(create_card_details(&server, &key), built_in);
    process.assert_fails(&["bin", "remove"], "no BIN data was imported");
    assert!(run_text(&process, &["bin", "status"]).contains("the built-in ranges"));
}

#[test]
fn server_starts_with_imported_bin_data_and_ignores_damaged_data() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    run_json(&process, &["bin", "import", &write_list(&process, "german.csv", GERMAN_LIST)]);
    drop(fs::remove_file(process.path("log")));
    let server = serve_unsealed(&process);
    assert_eq!(create_card_details(&server, &key)["funding"], "debit");
    drop(server);

    fs::write(process.data().join("bin-data"), "SCRIPBIN").unwrap();
    drop(fs::remove_file(process.path("log")));
    let server = serve_unsealed(&process);
    process.wait_for_log("the file is truncated or too long");
    assert_eq!(create_card_details(&server, &key)["funding"], Value::Null);
    assert_eq!(create_card_details(&server, &key)["brand"], "visa");
}

#[test]
fn rejected_bin_import_changes_nothing() {
    let process = ProcessHarness::initialized(crate::SCRIP);
    run_json(&process, &["bin", "import", &write_list(&process, "german.csv", GERMAN_LIST)]);
    let bytes_before = fs::read(process.data().join("bin-data")).unwrap();
    let maximum = "bin,brand\nx,visa\ny,visa\n424242,visa\n";
    process.assert_fails(
        &["bin", "import", &write_list(&process, "most.csv", maximum)],
        "most of its rows",
    );
    process.assert_fails(
        &["bin", "import", &write_list(&process, "none.csv", "a,b\n1,2\n")],
        "no column for the BIN",
    );
    process.assert_fails(&["bin", "import", "missing.csv"], "missing.csv cannot be read");
    assert_eq!(fs::read(process.data().join("bin-data")).unwrap(), bytes_before);
    let files = fs::read_dir(process.data()).unwrap().map(|it| it.unwrap().file_name());
    let temporary = files.filter(|it| it.to_string_lossy().ends_with(".tmp"));
    assert_eq!(temporary.count(), 0);
    ProcessHarness::new(crate::SCRIP).assert_fails(&["bin", "status"], "scrip init");
}
