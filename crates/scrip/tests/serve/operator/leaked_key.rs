//! `scrip key find` and `scrip key list`, for a key that leaked.

use std::{
    fs,
    io::Write,
    process::{Output, Stdio},
};

use scrip_testing::{
    process::harness::{ProcessHarness, becomes_true},
    requests::assert_members,
};
use serde_json::{Value, json};

use crate::operator::commands::{
    create_with_application, import_key, post_json, run_json, run_text, serve_unsealed, value_text,
};

/// Sends a key to the standard input of `scrip key find`.
fn find_key(process: &ProcessHarness, arguments: &[&str], input: &str) -> Output {
    let mut command = process.command(&[&["key", "find"], arguments].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run the command");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().expect("run the command")
}

#[track_caller]
fn find_key_json(process: &ProcessHarness, key: &str) -> Value {
    let output = find_key(process, &["--json"], key);
    assert!(output.status.success(), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(key), "the output has the key");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
fn assert_not_found(process: &ProcessHarness, key: &str, expected: &str) {
    let output = find_key(process, &[], key);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains(expected), "{message}");
    assert!(key.trim().is_empty() || !message.contains(key.trim()), "the message has the key");
}

#[test]
fn key_find_names_application_key_id_and_last_use() {
    let (process, tenant, application) = create_with_application("private");
    let key = value_text(&application["key"]);
    let key_id = value_text(&application["key_id"]);
    assert_eq!(application["keys"][0]["id"], json!(key_id));

    let found = find_key_json(&process, &key);
    assert_eq!(found["key"]["id"], json!(key_id));
    assert_eq!((&found["tenant"]["id"], &found["tenant"]["name"]), (&tenant["id"], &json!("Acme")));
    let found_application = json!({"id": application["id"], "name": "A", "type": "private"});
    assert_eq!(found["application"], found_application);
    assert_eq!(found["last_use"], Value::Null);
    assert_eq!(found["searched_since"], found["key"]["created_at"]);
    let text = String::from_utf8(find_key(&process, &[], &key).stdout).unwrap();
    let created_at = value_text(&found["key"]["created_at"]);
    assert!(text.contains(&format!("no use recorded since {created_at}")), "{text}");

    // A rejected request is a use too, and so are reads and changes: the newest counts.
    let server = serve_unsealed(&process);
    let last_use = || find_key_json(&process, &key)["last_use"].clone();
    let token = json!({"id": "token-1", "type": "token", "data": "secret"});
    let created = server.request("POST", "/tokens").json(&token).api_key(&key).send();
    assert_eq!(created.status, 201);
    assert_eq!(last_use()["operation"], "create_token");
    let read = server.request("GET", "/tokens/token-1").api_key(&key).send();
    assert_eq!(read.status, 200);
    assert_eq!(last_use()["operation"], "get_token");
    assert_eq!(last_use()["address"], "127.0.0.1");
    assert_eq!(server.request("GET", "/logs").api_key(&key).send().status, 403);
    assert_members(&last_use(), &json!({"outcome": "forbidden", "operation": "list_logs"}));

    // From a file, with white space around the key.
    fs::write(process.path("leaked.txt"), format!("\n  {key}\r\n")).unwrap();
    let from_file = run_text(&process, &["key", "find", "--file", "leaked.txt"]);
    let [delete, create] =
        ["If the key leaked, delete it first: scrip key delete", "replace it: scrip key create"]
            .map(|it| from_file.find(it).expect("advice for a leaked key"));
    assert!(delete < create, "{from_file}");
    assert!(from_file.contains(&key_id) && !from_file.contains(&key), "{from_file}");
}

#[test]
fn key_find_explains_keys_that_do_not_work() {
    let (process, _, application) = create_with_application("private");
    let key = value_text(&application["key"]);
    let key_id = value_text(&application["key_id"]);
    assert_not_found(&process, " \n", "no key was given");
    assert_not_found(&process, &key_id, "this is the id of a key");
    assert_not_found(&process, &format!("{key}x"), "deleted, or it belongs to another vault");
    let session_key = "key_test_us_ses_4mJ3Vb1m2n3b4v5c6x7z8a";
    assert_not_found(&process, session_key, "access session");
    process.assert_fails(&["key", "find", "--file", "missing.txt"], "missing.txt cannot be read");

    let connection = rusqlite::Connection::open(process.data().join("scrip.db")).unwrap();
    connection.execute("UPDATE applications SET name = 'altered'", []).unwrap();
    assert_not_found(&process, &key, "was altered outside the vault");
    connection.execute("UPDATE applications SET name = 'A'", []).unwrap();
    run_json(&process, &["key", "delete", &key_id]);
    assert_not_found(&process, &key, "the key was deleted");

    let create = ["tenant", "create", "Bank", "--type", "production"];
    run_json(&process, &create);
    let create = ["application", "create", "--tenant", "Bank", "--name", "B", "--type", "private"];
    let key = value_text(&run_json(&process, &[&create[..], &["--all"]].concat())["key"]);
    run_json(&process, &["tenant", "delete", "Bank", "--yes"]);
    assert_not_found(&process, &key, "is deleted");
}

/// The server looks a key up by its digest first, whatever its form.
#[test]
fn key_find_finds_imported_keys_with_the_form_of_session_keys_and_ids() {
    let (process, _, application) = create_with_application("private");
    let application_id = value_text(&application["id"]);
    let server = serve_unsealed(&process);
    for key in ["key_prod_us_ses_4mJ3Vb1m2n3b4v5c6x7z8a", "0b0e8a1c-2b1d-4c55-9a3a-8f1f0a7c9d11"] {
        let output = import_key(&process, &application_id, key);
        assert!(output.status.success(), "{output:?}");
        let imported: Value = serde_json::from_slice(&output.stdout).unwrap();
        let get = || server.request("GET", "/tokens/missing").api_key(key).send().status;
        assert!(becomes_true(|| get() == 404), "the key does not work");
        let found = find_key_json(&process, key);
        assert_eq!(found["key"]["id"], imported["id"], "{key}");
        assert_eq!(found["application"]["id"], application["id"], "{key}");
        // Without the key, the form decides the message.
        run_json(&process, &["key", "delete", &value_text(&imported["id"])]);
    }
    assert_not_found(&process, "key_prod_us_ses_4mJ3Vb1m2n3b4v5c6x7z8a", "access session");
    assert_not_found(&process, "0b0e8a1c-2b1d-4c55-9a3a-8f1f0a7c9d11", "this is the id of a key");
}

#[test]
fn key_find_reads_long_input_and_rejects_too_long_input() {
    let (process, _, application) = create_with_application("private");
    let key = value_text(&application["key"]);
    let text = format!("{}{key}\n", " ".repeat(10_000));
    fs::write(process.path("long"), &text).unwrap();
    let found = run_json(&process, &["key", "find", "--file", "long"]);
    assert_eq!(found["key"]["id"], application["key_id"]);
    let text = format!("{key}{}", " ".repeat(1024 * 1024));
    fs::write(process.path("too-long"), &text).unwrap();
    process.assert_fails(&["key", "find", "--file", "too-long"], "is longer than 1 MiB");
    assert_not_found(&process, &text, "is longer than 1 MiB");
    let import = ["key", "import", &value_text(&application["id"]), "--file", "too-long"];
    process.assert_fails(&import, "is longer than 1 MiB");
}

#[test]
fn key_list_has_ids_and_owners_but_no_keys() {
    let (process, tenant, application) = create_with_application("management");
    let application_id = value_text(&application["id"]);
    let created = run_text(&process, &["key", "create", &application_id]);
    run_json(&process, &["tenant", "create", "Other", "--type", "test"]);
    let create = ["application", "create", "--tenant", "Other", "--name", "B", "--type", "public"];
    let created_text = run_text(&process, &[&create[..], &["--all"]].concat());
    let all_keys = run_json(&process, &["key", "list"])["keys"].clone();
    let all_keys = all_keys.as_array().expect("keys");
    assert_eq!(all_keys.len(), 3);
    assert_eq!(all_keys[0]["id"], application["key_id"]);
    assert_eq!(all_keys[0]["application"]["id"], application["id"]);
    assert_eq!(all_keys[0]["tenant"]["id"], tenant["id"]);
    assert!(created.contains(&value_text(&all_keys[1]["id"])), "{created}");
    assert!(created_text.contains(&value_text(&all_keys[2]["id"])), "{created_text}");

    let count = |arguments: &[&str]| {
        let output = run_json(&process, &[&["key", "list"], arguments].concat());
        output["keys"].as_array().expect("keys").len()
    };
    assert_eq!((count(&["--tenant", "Acme"]), count(&["--tenant", "Other"])), (2, 1));
    assert_eq!(count(&["--application", &application_id]), 2);
    assert_eq!(count(&["--tenant", "Other", "--application", &application_id]), 0);
    let text = run_text(&process, &["key", "list"]);
    assert!(text.contains("management") && !text.contains("key_test_"), "{text}");
}

/// The key works, so the answer for a deleted key would be dangerous.
#[test]
fn key_find_asks_for_the_key_alone_when_other_text_surrounds_it() {
    let (process, _, application) = create_with_application("private");
    let key = value_text(&application["key"]);
    for text in [format!("API_KEY={key}"), format!("\"{key}\""), format!("GET / {key} 200")] {
        assert_not_found(&process, &text, "Give only the key");
    }
}

#[test]
fn key_find_says_why_an_access_session_does_not_work_any_more() {
    let (process, _, private) = create_with_application("private");
    let create = |name: &str, kind: &str| {
        let create = ["application", "create", "--tenant", "Acme", "--all", "--name", name];
        run_json(&process, &[&create[..], &["--type", kind]].concat())
    };
    let (second, public) = (create("B", "private"), create("P", "public"));
    let server = serve_unsealed(&process);
    let start_session = |authorizer: &Value| {
        let public_key = value_text(&public["key"]);
        let (_, session) = post_json(&server, "/sessions", &public_key, &Value::Null);
        let grant = json!({"nonce": session["nonce"], "permissions": ["token:read"]});
        let key = value_text(&authorizer["key"]);
        assert_eq!(post_json(&server, "/sessions/authorize", &key, &grant).0, 204);
        value_text(&session["session_key"])
    };
    let (session, of_second) = (start_session(&private), start_session(&second));
    let found = find_key_json(&process, &session);
    assert_eq!(found["access_session"]["authorized_by_key_id"], private["key_id"]);

    let (key_id, second_id) = (value_text(&private["key_id"]), value_text(&second["id"]));
    run_json(&process, &["key", "delete", &key_id]);
    let expected =
        format!("does not work any more: key {key_id}, which authorized it, was deleted");
    assert_not_found(&process, &session, &expected);
    run_json(&process, &["application", "delete", &second_id]);
    let expected = format!("application {second_id}, which authorized it, was deleted");
    assert_not_found(&process, &of_second, &expected);
    let public_id = value_text(&public["id"]);
    run_json(&process, &["application", "delete", &public_id]);
    let expected = format!("application {public_id}, which started it, was deleted");
    assert_not_found(&process, &session, &expected);
}
