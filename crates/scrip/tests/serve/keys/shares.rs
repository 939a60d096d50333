//! Shares: the ceremony, unsealing by several people, and their rotation.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Output, Stdio},
};

use scrip_testing::process::harness::{ProcessHarness, becomes_true};

use crate::{
    SCRIP,
    keys::{assert_readable, create_token, files_contain, is_open, methods, stderr, text},
    operator::commands::run_json,
};

/// Runs a ceremony: reads the printed shares, and enters some of them.
fn run_ceremony(process: &ProcessHarness, arguments: &[&str], entered: &[usize]) -> Vec<String> {
    let mut command = process.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut shares = Vec::new();
    while shares.len() < 3 {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the command ended early");
        if line.starts_with("scrip1-") {
            shares.push(line.trim().to_owned());
        }
    }
    let mut stdin = child.stdin.take().unwrap();
    for index in entered {
        writeln!(stdin, "{}", shares[*index]).unwrap();
    }
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    shares
}

fn unseal(process: &ProcessHarness, share: &str) -> Output {
    let mut command = process.command(&["unseal"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{share}").unwrap();
    child.wait_with_output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(output)
}

const ADD: [&str; 7] = ["keys", "add", "shamir", "--shares", "3", "--threshold", "2"];

#[test]
fn two_people_unseal_the_vault_and_old_shares_die_with_a_rotation() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    let [file_method] = methods(&process).try_into().unwrap();
    let old_shares = run_ceremony(&process, &ADD, &[0, 2]);
    run_json(&process, &["keys", "remove", &text(&file_method["id"])]);
    assert!(printed(&unseal(&process, &old_shares[0])).contains("the vault is open"));
    drop(server);
    fs::remove_file(process.data().join("root.key")).unwrap();

    let server = process.serve();
    process.wait_for_log("2 of 3 people must each enter a share");
    assert_eq!(server.status("/readyz"), 503);
    assert!(printed(&unseal(&process, &old_shares[1])).contains("1/2"));
    assert!(printed(&unseal(&process, &old_shares[1])).contains("entered"), "the same share");
    let typing_error = old_shares[2].replacen(&old_shares[2][60..62], "zz", 1);
    assert!(!unseal(&process, &typing_error).status.success());
    assert_eq!(server.status("/readyz"), 503);
    assert!(printed(&unseal(&process, &old_shares[2])).contains("2/2: the vault is open"));
    assert_readable(&server, &key, &token);

    let new_shares = run_ceremony(&process, &["keys", "rotate", "vault"], &[1, 2]);
    assert_readable(&server, &key, &token);
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 2);
    drop(server);
    let server = process.serve();
    assert!(printed(&unseal(&process, &old_shares[0])).contains("a set that was replaced"));
    assert!(unseal(&process, &new_shares[0]).status.success());
    assert!(unseal(&process, &new_shares[1]).status.success());
    assert_readable(&server, &key, &token);
    for share in old_shares.iter().chain(&new_shares) {
        let value = share.rsplit('-').next().unwrap();
        assert!(!files_contain(&process, value.as_bytes()), "a share is stored or logged");
    }
}

#[test]
fn shares_do_not_count_before_they_were_entered() {
    let process = ProcessHarness::initialized(SCRIP);
    let server = process.serve();
    assert!(is_open(&server));
    let output = process.run(&ADD);
    assert!(stderr(&output).contains("the shares do not count yet"), "{}", stderr(&output));
    let [first, pending] = methods(&process).try_into().unwrap();
    assert_eq!(pending["state"], "pending");
    process.assert_fails(&["keys", "remove", &text(&first["id"])], "is the last unlock method");
    run_json(&process, &["keys", "remove", &text(&pending["id"])]);
    drop(server);
    let server = process.serve();
    assert!(becomes_true(|| server.status("/readyz") == 200));
}
