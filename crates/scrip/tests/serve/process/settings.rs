//! Settings as the program reads them.

use std::fs;

use scrip_testing::process::harness::{ProcessHarness, Running, eventually};
use serde_json::Value;

#[test]
fn what_is_wrong_in_the_file_is_named_with_its_place() {
    let house = ProcessHarness::new(crate::SCRIP);
    fs::write(house.path("scrip.toml"), "[server]\n\nconnections_max = 0\n").unwrap();
    let expected = "scrip.toml:3:19: server.connections_max: must be a whole number from 1";
    house.refused(&["serve"], expected);
    house.refused(&["init"], expected);
    house.refused(&["config", "check"], expected);
    let output = house.run(&["config", "check", "--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["ok"], false);
    assert!(said["problems"][0].as_str().unwrap().starts_with(expected));

    house.refused(&["serve", "--config", "none.toml"], "none.toml cannot be read");
    let house = house.set("SCRIP_CONFIG", "none.toml");
    house.refused(&["serve"], "none.toml cannot be read");
}

#[test]
fn the_check_tells_where_each_value_comes_from() {
    let house =
        ProcessHarness::new(crate::SCRIP).set("SCRIP_SERVER_USR", "me").set("SCRIP_LOG", "debug");
    let text = "[server]\nlisten = \"127.0.0.1:9\"\ndrain_deadline_seconds = 3\n";
    fs::write(house.path("mine.toml"), text).unwrap();
    let output = house.run(&["config", "check", "--json", "--config", "mine.toml"]);
    assert!(output.status.success());
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |name: &str| {
        let rows = said["settings"].as_array().unwrap();
        let row = rows.iter().find(|it| it["name"] == name).unwrap();
        (row["value"].as_str().unwrap().to_owned(), row["origin"].as_str().unwrap().to_owned())
    };
    let expected = [
        ("server.listen", "127.0.0.1:0", "environment"),
        ("server.drain_deadline_seconds", "3", "file"),
        ("server.connections_max", "4096", "default"),
        ("log.filter", "debug", "environment"),
    ];
    for (name, value, origin) in expected {
        assert_eq!(of(name), (value.to_owned(), origin.to_owned()), "{name}");
    }
    assert!(said["warnings"][0].as_str().unwrap().starts_with("SCRIP_SERVER_USR"));
    let output = house.run(&["config", "check", "--config", "mine.toml"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("server.drain_deadline_seconds    = 3"), "{said}");
}

#[test]
fn a_bad_variable_is_named_and_its_value_is_not() {
    let house =
        ProcessHarness::new(crate::SCRIP).set("SCRIP_SERVER_CONNECTIONS_MAX", "4242424242424242");
    let output = house.run(&["serve"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("SCRIP_SERVER_CONNECTIONS_MAX: must be"), "{said}");
    assert!(!said.contains("4242424242424242"), "{said}");
}

#[test]
fn the_root_key_is_shown_nowhere() {
    const KEY: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    let house =
        ProcessHarness::new(crate::SCRIP).set("SCRIP_ROOT_KEY", KEY).set("SCRIP_LOG", "trace");
    for arguments in [&["config", "check"][..], &["config", "check", "--json"], &["init"]] {
        let output = house.run(arguments);
        assert!(output.status.success(), "{output:?}");
        let said = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&said).contains(&KEY[..20]));
    }
    drop(house.serve());
    assert!(!house.log().contains(&KEY[..20]));
}

#[test]
fn an_unknown_variable_is_logged() {
    let house = ProcessHarness::founded(crate::SCRIP).set("SCRIP_SERVER_LISEN", "127.0.0.1:1");
    let _server = house.serve();
    house.logged("SCRIP_SERVER_LISEN is not a setting");
}

#[test]
fn plain_http_stays_on_this_machine_unless_told() {
    let house = ProcessHarness::founded(crate::SCRIP).set("SCRIP_SERVER_LISTEN", "0.0.0.0:0");
    house.refused(&["serve"], "server.plain_http = true");
    let house = house.set("SCRIP_SERVER_PLAIN_HTTP", "true");
    assert!(house.serve().own_url.starts_with("http://0.0.0.0:"));
}

#[test]
fn limits_are_obeyed() {
    let house =
        ProcessHarness::founded(crate::SCRIP).set("SCRIP_SERVER_HEADER_DEADLINE_SECONDS", "1");
    let server = house.serve();
    let mut silent = std::net::TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut silent, &mut rest).expect("it is closed before ten seconds");
}

#[test]
fn shells_are_taught() {
    let house = ProcessHarness::new(crate::SCRIP);
    for shell in ["bash", "zsh", "fish"] {
        let output = house.run(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("scrip"), "{shell}");
    }
}

#[test]
fn a_switch_is_on_or_off() {
    let house = ProcessHarness::new(crate::SCRIP).set("SCRIP_DEPRECATED_LIST_TOKENS_V1", "false");
    let expected = "SCRIP_DEPRECATED_LIST_TOKENS_V1: must be on or off";
    house.refused(&["serve"], expected);
    house.refused(&["config", "check"], expected);
    let house = ProcessHarness::new(crate::SCRIP).set("SCRIP_DEPRECATED_SEARCH_TOKENS_V1", "off");
    let output = house.run(&["config", "check"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("deprecated.search_tokens_v1      = \"off\""), "{said}");
    assert!(said.contains("deprecated.list_tokens_v1        = \"on\""), "{said}");
}

/// By the environment and by the file, through the real program.
#[test]
fn a_deprecated_operation_is_switched_off() {
    let ask = |server: &Running, path: &str, key: &str| {
        let config = ureq::Agent::config_builder().http_status_as_error(false).build();
        let agent: ureq::Agent = config.into();
        let asked = agent.get(format!("{}{path}", server.url)).header("BT-API-KEY", key).call();
        asked.expect("an answer").status().as_u16()
    };
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let opened = |house: &ProcessHarness| {
        let server = house.serve();
        assert!(eventually(|| server.status("/readyz") == 200), "{}", house.log());
        server
    };
    let server = opened(&house);
    assert_eq!(ask(&server, "/tokens", &key), 200);
    drop(server);
    fs::write(house.path("scrip.toml"), "[deprecated]\nlist_tokens_v1 = \"off\"\n").unwrap();
    let server = opened(&house);
    assert_eq!(ask(&server, "/tokens", &key), 410);
    assert_eq!(ask(&server, "/tokens", "nobodys"), 401);
    assert_eq!(ask(&server, "/v2/tokens", &key), 200);
    drop(server);
    let house = house.set("SCRIP_DEPRECATED_LIST_TOKENS_V1", "on");
    assert_eq!(ask(&opened(&house), "/tokens", &key), 200);
}
