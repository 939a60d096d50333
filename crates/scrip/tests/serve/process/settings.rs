//! Settings as the program reads them.

use std::{collections::BTreeSet, fs};

use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::Value;

#[test]
fn invalid_setting_in_the_file_is_reported_with_line_and_column() {
    let process = ProcessHarness::new(crate::SCRIP);
    fs::write(process.path("scrip.toml"), "[server]\n\nconnections_max = 0\n").unwrap();
    let expected = "scrip.toml:3:19: server.connections_max: must be a whole number from 1";
    process.assert_fails(&["serve"], expected);
    process.assert_fails(&["init"], expected);
    process.assert_fails(&["config", "check"], expected);
    let output = process.run(&["config", "check", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output["ok"], false);
    assert!(output["problems"][0].as_str().unwrap().starts_with(expected));

    process.assert_fails(&["serve", "--config", "none.toml"], "none.toml cannot be read");
    let process = process.with_variable("SCRIP_CONFIG", "none.toml");
    process.assert_fails(&["serve"], "none.toml cannot be read");
}

#[test]
fn config_check_shows_the_source_of_each_value() {
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_SERVER_USR", "me")
        .with_variable("SCRIP_LOG", "debug");
    let text = "[server]\nlisten = \"127.0.0.1:9\"\ndrain_deadline_seconds = 3\n";
    fs::write(process.path("mine.toml"), text).unwrap();
    let output = process.run(&["config", "check", "--json", "--config", "mine.toml"]);
    assert!(output.status.success());
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let value_and_origin = |name: &str| {
        let rows = output["settings"].as_array().unwrap();
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
        assert_eq!(value_and_origin(name), (value.to_owned(), origin.to_owned()), "{name}");
    }
    assert!(output["warnings"][0].as_str().unwrap().starts_with("SCRIP_SERVER_USR"));
    let output = process.run(&["config", "check", "--config", "mine.toml"]);
    let output = String::from_utf8(output.stdout).unwrap();
    let drain = output.lines().find(|it| it.starts_with("server.drain_deadline_seconds ")).unwrap();
    assert!(drain.contains(" = 3 "), "{drain}");
    let lines: Vec<_> = output.lines().filter(|it| it.contains(" # ")).collect();
    let columns = |text: &str| lines.iter().map(|it| it.find(text)).collect::<BTreeSet<_>>();
    assert!(lines.len() > 50 && columns(" = ").len() == 1, "{output}");
}

#[test]
fn invalid_variable_is_named_without_its_value() {
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_SERVER_CONNECTIONS_MAX", "4242424242424242");
    let output = process.run(&["serve"]);
    let output = String::from_utf8(output.stderr).unwrap();
    assert!(output.contains("SCRIP_SERVER_CONNECTIONS_MAX: must be"), "{output}");
    assert!(!output.contains("4242424242424242"), "{output}");
}

#[test]
fn empty_variable_unsets_an_optional_setting_of_the_file() {
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_METRICS_LISTEN", "")
        .with_variable("SCRIP_LIMITS_TRUSTED_PROXIES", "")
        .with_variable("SCRIP_ROOT_KEY", "")
        .with_variable("SCRIP_CONFIG", "");
    let text = "[metrics]\nlisten = \"127.0.0.1:9\"\n[limits]\ntrusted_proxies = \"10.0.0.0/8\"\n";
    fs::write(process.path("scrip.toml"), text).unwrap();
    let output = process.run(&["config", "check", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = output["settings"].as_array().unwrap();
    for name in ["metrics.listen", "limits.trusted_proxies"] {
        let row = rows.iter().find(|it| it["name"] == name).unwrap();
        let shown = (row["value"].as_str(), row["origin"].as_str());
        assert_eq!(shown, (Some(""), Some("environment")));
    }
}

#[test]
fn empty_variable_of_a_required_setting_counts_as_absent() {
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_SERVER_CONNECTIONS_MAX", "")
        .with_variable("SCRIP_LIMITS_MODE", "")
        .with_variable("SCRIP_LOG", "");
    fs::write(process.path("scrip.toml"), "[server]\nconnections_max = 77\n").unwrap();
    let output = process.run(&["config", "check", "--json"]);
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = output["settings"].as_array().unwrap();
    for (name, value, origin) in [
        ("server.connections_max", "77", "file"),
        ("limits.mode", "on", "default"),
        ("log.filter", "info", "default"),
    ] {
        let row = rows.iter().find(|it| it["name"] == name).unwrap();
        let text = row["value"].to_string();
        let shown = (text.trim_matches('"'), row["origin"].as_str());
        assert_eq!(shown, (value, Some(origin)), "{name}");
    }
}

#[test]
fn root_key_is_never_printed_or_logged() {
    const KEY: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=";
    let process = ProcessHarness::new(crate::SCRIP)
        .with_variable("SCRIP_ROOT_KEY", KEY)
        .with_variable("SCRIP_LOG", "trace");
    for arguments in [&["config", "check"][..], &["config", "check", "--json"], &["init"]] {
        let output = process.run(arguments);
        assert!(output.status.success(), "{output:?}");
        let output = [output.stdout, output.stderr].concat();
        assert!(!String::from_utf8_lossy(&output).contains(&KEY[..20]));
    }
    drop(process.serve());
    assert!(!process.log().contains(&KEY[..20]));
}

#[test]
fn unknown_variable_is_logged() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_SERVER_LISEN", "127.0.0.1:1");
    let _server = process.serve();
    process.wait_for_log("SCRIP_SERVER_LISEN is not a setting");
}

#[test]
fn unknown_variable_is_reported_once_by_every_command() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_SERVER_LISEN", "127.0.0.1:1");
    let commands = [
        "tenant list",
        "application list",
        "status",
        "doctor",
        "config check",
        "config example",
        "completions bash",
        "init",
        "audit verify",
        "bin status",
        "access-session list",
        "tenant show none",
    ];
    for command in commands {
        let output = process.run(&command.split(' ').collect::<Vec<_>>());
        let output = [output.stdout, output.stderr].concat();
        let output = String::from_utf8(output).unwrap();
        let count = output.matches("SCRIP_SERVER_LISEN is not a setting").count();
        assert_eq!(count, 1, "{command}: {output}");
    }
}

#[test]
fn unknown_variable_is_reported_once_when_settings_are_invalid() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_SERVER_LISEN", "127.0.0.1:1")
        .with_variable("SCRIP_SERVER_LISTEN", "no-address");
    for command in ["doctor", "config check", "serve", "status"] {
        let output = process.run(&command.split(' ').collect::<Vec<_>>());
        let output = String::from_utf8(output.stderr).unwrap();
        let count = output.matches("SCRIP_SERVER_LISEN is not a setting").count();
        assert_eq!(count, 1, "{command}: {output}");
    }
}

#[test]
fn plain_http_on_a_public_address_needs_the_setting() {
    let process =
        ProcessHarness::initialized(crate::SCRIP).with_variable("SCRIP_SERVER_LISTEN", "0.0.0.0:0");
    process.assert_fails(&["serve"], "server.plain_http = true");
    let process = process.with_variable("SCRIP_SERVER_PLAIN_HTTP", "true");
    assert!(process.serve().own_url.starts_with("http://0.0.0.0:"));
}

#[test]
fn header_deadline_setting_is_applied() {
    let process = ProcessHarness::initialized(crate::SCRIP)
        .with_variable("SCRIP_SERVER_HEADER_DEADLINE_SECONDS", "1");
    let server = process.serve();
    let mut silent_connection = std::net::TcpStream::connect(server.address).unwrap();
    silent_connection.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut response_bytes = Vec::new();
    std::io::Read::read_to_end(&mut silent_connection, &mut response_bytes)
        .expect("the connection is closed within ten seconds");
}

#[test]
fn completion_scripts_are_printed_for_each_shell() {
    let process = ProcessHarness::new(crate::SCRIP);
    for shell in ["bash", "zsh", "fish"] {
        let output = process.run(&["completions", shell]);
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("scrip"), "{shell}");
    }
}

#[test]
fn deprecation_settings_accept_only_on_or_off() {
    let process =
        ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_DEPRECATED_LIST_TOKENS_V1", "false");
    let expected = "SCRIP_DEPRECATED_LIST_TOKENS_V1: must be on or off";
    process.assert_fails(&["serve"], expected);
    process.assert_fails(&["config", "check"], expected);
    let process =
        ProcessHarness::new(crate::SCRIP).with_variable("SCRIP_DEPRECATED_SEARCH_TOKENS_V1", "off");
    let output = process.run(&["config", "check"]);
    let output = String::from_utf8(output.stdout).unwrap();
    let value_of = |name: &str| {
        let line = output.lines().find(|it| it.split_whitespace().next() == Some(name));
        line.and_then(|it| it.split_whitespace().nth(2)).unwrap_or_default()
    };
    assert_eq!(value_of("deprecated.search_tokens_v1"), "\"off\"", "{output}");
    assert_eq!(value_of("deprecated.list_tokens_v1"), "\"on\"", "{output}");
}

/// Tests the setting in the environment and in the file.
#[test]
fn deprecated_operation_can_be_disabled_by_settings() {
    let get_status = |server: &RunningServer, path: &str, key: &str| {
        server.request("GET", path).api_key(key).send().status
    };
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let opened = |process: &ProcessHarness| {
        let server = process.serve();
        assert!(becomes_true(|| server.status("/readyz") == 200), "{}", process.log());
        server
    };
    let server = opened(&process);
    assert_eq!(get_status(&server, "/tokens", &key), 200);
    drop(server);
    fs::write(process.path("scrip.toml"), "[deprecated]\nlist_tokens_v1 = \"off\"\n").unwrap();
    let server = opened(&process);
    assert_eq!(get_status(&server, "/tokens", &key), 410);
    assert_eq!(get_status(&server, "/tokens", "nobodys"), 401);
    assert_eq!(get_status(&server, "/v2/tokens", &key), 200);
    drop(server);
    let process = process.with_variable("SCRIP_DEPRECATED_LIST_TOKENS_V1", "on");
    assert_eq!(get_status(&opened(&process), "/tokens", &key), 200);
}
