//! Shares: the ceremony, unsealing by several people, and their rotation.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
};

use scrip_seal::{Secret, Share, split_secret};
use scrip_testing::process::harness::{ProcessHarness, becomes_true};
use serde_json::Value;

use crate::{
    SCRIP,
    keys::{
        assert_readable, assert_sealed, create_token, files_contain, is_open, is_recorded,
        keep_only, methods, stderr, text,
    },
    operator::commands::{doctor_report, run_json},
    process::verification_codes::serve_ready,
    terminal::Terminal,
};

/// Arguments with a new file for each share.
pub(super) fn with_share_files(
    process: &ProcessHarness,
    arguments: &[&str],
    count: usize,
) -> Vec<String> {
    let names = (0..).map(|it| process.path(&format!("share-{it}")));
    let files = names.filter(|it| !it.exists()).take(count);
    let files = files.flat_map(|it| ["--share-file".to_owned(), it.display().to_string()]);
    arguments.iter().map(|it| (*it).to_owned()).chain(files).collect()
}

/// Reads the shares from the files that the command names.
pub(super) fn read_share_files(stdout: &mut impl BufRead, count: usize) -> Vec<String> {
    let mut shares = Vec::new();
    while shares.len() < count {
        let mut line = String::new();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the command ended early");
        assert!(!line.contains("scrip1-"), "the command prints a share");
        if let Some((_, file)) = line.split_once(" is in ") {
            let mode = fs::metadata(file.trim()).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            shares.push(fs::read_to_string(file.trim()).unwrap().trim().to_owned());
            // A holder takes it away.
            fs::remove_file(file.trim()).unwrap();
        }
    }
    shares
}

/// Runs a ceremony: reads the shares from their files, and enters some of them.
pub(super) fn run_ceremony(
    process: &ProcessHarness,
    arguments: &[&str],
    count: usize,
    entered: &[usize],
) -> Vec<String> {
    let arguments = with_share_files(process, arguments, count);
    let mut command = process.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let shares = read_share_files(&mut stdout, count);
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

pub(super) fn unseal(process: &ProcessHarness, share: &str) -> Output {
    let mut command = process.command(&["unseal"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{share}").unwrap();
    child.wait_with_output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &stderr(output)
}

/// Enters a share, and expects this text.
#[track_caller]
pub(super) fn assert_unseal(process: &ProcessHarness, share: &str, expected: &str) {
    let text = printed(&unseal(process, share));
    assert!(text.contains(expected), "{expected:?} is not in {text:?}");
}

pub(super) const ADD: [&str; 7] = ["keys", "add", "shamir", "--shares", "3", "--threshold", "2"];

#[test]
fn two_people_unseal_the_vault_and_old_shares_die_with_a_rotation() {
    let (process, key) = ProcessHarness::with_api_key(SCRIP);
    let server = process.serve();
    let token = create_token(&server, &key);
    let [file_method] = methods(&process).try_into().unwrap();
    let old_shares = run_ceremony(&process, &ADD, 3, &[0, 2]);
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

    let new_shares = run_ceremony(&process, &["keys", "rotate", "vault"], 3, &[1, 2]);
    assert_readable(&server, &key, &token);
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 2);
    let server = process.restart(server);
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
    let server = serve_ready(&process);
    let add = with_share_files(&process, &ADD, 3);
    let output = process.run(&add.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(stderr(&output).contains("the shares do not count yet"), "{}", stderr(&output));
    let [first, pending] = methods(&process).try_into().unwrap();
    assert_eq!(pending["state"], "pending");
    process.assert_fails(&["keys", "remove", &text(&first["id"])], "is the last unlock method");
    let removed = process.run(&["keys", "remove", &text(&pending["id"])]);
    let advice = "Its shares never opened the vault. Destroy the shares that were handed out";
    assert!(printed(&removed).contains(advice), "{}", printed(&removed));
    assert!(!printed(&removed).contains("rotate"), "{}", printed(&removed));
    let server = process.restart(server);
    assert!(becomes_true(|| server.status("/readyz") == 200));
}

#[test]
fn clear_shares_without_a_terminal_or_a_file_for_each_are_refused() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let refusal = "clear shares are shown on a terminal only, one at a time; nothing was changed";
    process.assert_fails(&ADD, refusal);
    let two_files = with_share_files(&process, &ADD, 2);
    let two_files: Vec<_> = two_files.iter().map(String::as_str).collect();
    process.assert_fails(&two_files, "each of the 3 shares needs a file of its own");
    assert_eq!(methods(&process).len(), 1, "nothing was created");
    run_ceremony(&process, &ADD, 3, &[0, 1]);
    let [file_method, _] = methods(&process).try_into().unwrap();
    process.assert_fails(&["keys", "rotate", "vault"], refusal);
    process.assert_fails(&["keys", "remove", &text(&file_method["id"]), "--rotate"], refusal);
    assert_eq!(methods(&process).len(), 2, "nothing was removed");
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 1);
}

/// The text between two steps of a ceremony on a terminal.
fn last_screen(text: &str) -> &str {
    text.rsplit("\u{1b}[2J\u{1b}[3J\u{1b}[H").next().unwrap()
}

#[test]
fn terminal_shows_one_share_at_a_time_and_clears_each() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    for arguments in [&ADD[..], &["keys", "rotate", "vault"]] {
        let mut terminal = Terminal::start(&mut process.command(arguments));
        let mut shares = Vec::new();
        for number in 1..=3 {
            let title = format!("share {number} of 3, for one holder only");
            terminal.wait_for(&title);
            let text = terminal.wait_for("press Enter");
            let screen = last_screen(&text);
            assert!(screen.contains(&title), "{screen}");
            assert_eq!(screen.matches("scrip1-").count(), 1, "{screen}");
            let share = screen.lines().find(|it| it.starts_with("scrip1-")).unwrap();
            shares.push(share.trim().to_owned());
            assert!(!text.contains(&format!("share {} of 3,", number + 1)), "{text}");
            terminal.forget();
            terminal.write_line("");
        }
        terminal.wait_for("share 1 of 2, which is not shown");
        let text = terminal.text();
        assert!(!last_screen(&text).contains("scrip1-"), "{text}");
        for malformed in ["scrip1-wrong", ""] {
            terminal.forget();
            terminal.write_line(malformed);
            let text = terminal.wait_for("share 1 of 2, which is not shown");
            assert!(!text.contains("wrong"), "{text}");
        }
        terminal.forget();
        terminal.write_line(&shares[0]);
        terminal.wait_for("share 2 of 2, which is not shown");
        terminal.write_line(&shares[2]);
        assert!(terminal.wait_for_end().success());
        let is_shown = last_screen(&terminal.text()).contains("scrip1-");
        assert!(!is_shown, "an entered share is not shown");
    }
    assert_eq!(run_json(&process, &["keys", "list"])["key_version"], 2);
}

const ADD_THREE_OF_FIVE: [&str; 7] = ["keys", "add", "shamir", "--shares", "5", "--threshold", "3"];

/// A vault that only shares open.
pub(super) fn vault_with_shares() -> (ProcessHarness, Vec<String>) {
    let process = ProcessHarness::initialized(SCRIP);
    let server = serve_ready(&process);
    let shares = run_ceremony(&process, &ADD_THREE_OF_FIVE, 5, &[4, 0, 2]);
    let list = methods(&process);
    let shamir = list.iter().find(|it| it["kind"] == "shamir").unwrap();
    assert_eq!(shamir["state"], "active");
    keep_only(&process, &text(&shamir["id"]));
    drop(server);
    (process, shares)
}

/// A share with a correct checksum and the label of this share, of another secret.
fn forge_share(share: &str) -> String {
    let original = Share::parse(share).unwrap();
    let secret = Secret::new(vec![7; 32]);
    let forged = split_secret(&secret, original.label(), original.threshold(), 5).unwrap();
    let forged = forged.iter().find(|it| it.index() == original.index()).unwrap().to_text();
    String::from_utf8(forged.expose().to_vec()).unwrap()
}

#[test]
fn three_processes_unseal_the_vault_and_fewer_shares_open_nothing() {
    let (process, shares) = vault_with_shares();
    let server = process.serve();
    assert_sealed(&process, &server, "3 of 5 people must each enter a share: scrip unseal");
    assert!(printed(&unseal(&process, &shares[3])).contains("1/3: more shares are needed"));
    assert!(printed(&unseal(&process, &shares[1])).contains("2/3: more shares are needed"));
    assert_sealed(&process, &server, "people must each enter a share");
    // A lower case share with spaces, as a person may type it.
    let typed = shares[0].to_lowercase().replace('-', " - ");
    assert!(printed(&unseal(&process, &typed)).contains("3/3: the vault is open"));
    assert!(is_open(&server));
    for index in [1, 2, 4] {
        let record = format!("unseal share {index} by uid");
        assert!(is_recorded(&process, &record, "completed", 1), "{record}");
    }
    drop(server);
    // A restart forgets the shares.
    let server = process.serve();
    assert_sealed(&process, &server, "people must each enter a share");
    assert!(printed(&unseal(&process, &shares[2])).contains("1/3"));
}

#[test]
fn share_of_another_vault_or_set_and_a_typing_error_are_rejected_at_once() {
    let (process, shares) = vault_with_shares();
    let (_other_process, other_shares) = vault_with_shares();
    let server = process.serve();
    assert!(printed(&unseal(&process, &shares[0])).contains("1/3"));
    let rejected = unseal(&process, &other_shares[1]);
    assert!(printed(&rejected).contains("this share belongs to another vault"));
    assert!(!rejected.status.success());
    let mut typing_errors = Vec::new();
    for position in [8, 20, shares[1].len() - 1] {
        let mut typed = shares[1].clone().into_bytes();
        typed[position] = if typed[position] == b'7' { b'8' } else { b'7' };
        typing_errors.push(String::from_utf8(typed).unwrap());
    }
    typing_errors.push(shares[1][..shares[1].len() - 1].to_owned());
    typing_errors.push("scrip1".to_owned());
    for typed in typing_errors {
        let output = unseal(&process, &typed);
        assert!(!output.status.success(), "{typed}: {}", printed(&output));
        assert!(!printed(&output).contains(&typed[..6]), "the message repeats the share");
    }
    // The share that was entered before still counts.
    assert!(printed(&unseal(&process, &shares[1])).contains("2/3"));
    assert_eq!(server.status("/readyz"), 503);
    assert!(printed(&unseal(&process, &shares[2])).contains("3/3: the vault is open"));
    assert!(is_open(&server));
}

#[test]
fn forged_share_opens_nothing_and_the_other_shares_still_count() {
    let (process, shares) = vault_with_shares();
    let server = process.serve();
    assert!(printed(&unseal(&process, &shares[0])).contains("1/3"));
    assert!(printed(&unseal(&process, &forge_share(&shares[1]))).contains("2/3"));
    let rejected = unseal(&process, &shares[2]);
    assert!(!rejected.status.success());
    assert!(printed(&rejected).contains("one of them is forged"), "{}", printed(&rejected));
    assert_eq!(server.status("/readyz"), 503);
    let output = unseal(&process, &shares[1]);
    assert!(printed(&output).contains("3/3: the vault is open"), "{}", printed(&output));
    assert!(is_open(&server));
    assert!(is_recorded(&process, "unseal share 2 by uid", "completed", 1));
}

/// A command that opens the vault itself cannot ask people. A key file for the time of the command
/// is added and removed by the server, so both are recorded.
#[test]
fn command_for_a_vault_with_shares_only_runs_on_the_server_or_with_a_temporary_key_file() {
    let (process, shares) = vault_with_shares();
    let server = process.serve();
    let create = ["tenant", "create", "Acme", "--type", "test"];
    let advice = "a command cannot use shares. Add a key file for the time of the command";
    process.assert_fails(&create, advice);
    for share in &shares[..3] {
        assert!(unseal(&process, share).status.success());
    }
    assert!(is_open(&server));
    run_json(&process, &create);
    let verify = ["audit", "verify"];
    process.assert_fails(&verify, advice);
    let file = process.path("operator.key").display().to_string();
    let added = run_json(&process, &["keys", "add", "file", &file]);
    run_json(&process, &verify);
    run_json(&process, &["keys", "remove", &text(&added["method"]["id"])]);
    process.assert_fails(&verify, advice);
    assert!(process.run(&["status"]).status.success(), "the status needs no key");
}

#[test]
fn vault_with_shares_only_is_backed_up_and_restored_without_the_root_key() {
    let (process, shares) = vault_with_shares();
    let report = doctor_report(&process);
    for check in ["canary", "policy", "audit", "vault key", "tenant keys"] {
        let line = format!("warning  {check:<14}  not checked: the vault opens only with shares");
        assert!(report.contains(&line), "{line}: {report}");
    }
    let file = process.path("backup").display().to_string();
    assert!(process.run(&["backup", &file, "--without-root-key"]).status.success());
    let second_machine = ProcessHarness::new(SCRIP);
    for arguments in [&["backup", "verify", &file][..], &["restore", &file]] {
        let output = second_machine.run(arguments);
        assert!(!output.status.success(), "{output:?}");
        assert!(stderr(&output).contains("use --without-root-key"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("keys add file"), "{}", stderr(&output));
    }
    assert!(second_machine.run(&["restore", &file, "--without-root-key"]).status.success());
    let server = second_machine.serve();
    for share in &shares[..3] {
        assert!(unseal(&second_machine, share).status.success());
    }
    assert!(is_open(&server));
}

pub(super) const HOLDERS: [&str; 2] = [
    "age1hl629fjyxgp0mr78xrlx82dwej7fswctfd575qfh9hjgsvwslypsqlcvm0",
    "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj",
];
pub(super) const ADD_TWO_OF_TWO: [&str; 7] =
    ["keys", "add", "shamir", "--shares", "2", "--threshold", "2"];

fn key_version(process: &ProcessHarness) -> Value {
    run_json(process, &["keys", "list"])["key_version"].clone()
}

#[test]
fn rotation_makes_as_many_shares_as_before_for_new_recipients() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let (to, rotate) = (["--to", HOLDERS[0], "--to", HOLDERS[1]], ["keys", "rotate", "vault"]);
    let rotate_to = [&rotate[..], &to].concat();
    process.assert_fails(&rotate_to, "the vault has no shares that the rotation could replace");
    let same = ["--to", HOLDERS[0], "--to", HOLDERS[0]];
    let refusal = "two shares for one recipient defeat the threshold";
    process.assert_fails(&[&ADD_TWO_OF_TWO[..], &same].concat(), refusal);
    run_ceremony(&process, &ADD_TWO_OF_TWO, 2, &[0, 1]);
    process.assert_fails(&[&rotate[..], &same].concat(), refusal);
    process.assert_fails(&[&rotate[..], &to[..2]].concat(), "each of the 2 shares needs one");
    let output = process.run(&rotate_to);
    let printed = printed(&output);
    assert_eq!(printed.matches("BEGIN AGE ENCRYPTED FILE").count(), 2, "{printed}");
    assert!(printed.contains("nothing was rotated: the shares from before still count"));
    let files = with_share_files(&process, &rotate, 2);
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    let written = process.path("share-0").display().to_string();
    process.assert_fails(&files, "Destroy the new shares that this command has shown or written");
    process.assert_fails(&files, &format!("{written} exists, and may be a share that counts"));
    assert_eq!(key_version(&process), 1);
}

#[test]
fn removal_with_a_rotation_takes_the_options_of_new_shares() {
    let process = ProcessHarness::initialized(SCRIP);
    let _server = serve_ready(&process);
    let [file_method] = methods(&process).try_into().unwrap();
    run_ceremony(&process, &ADD_TWO_OF_TWO, 2, &[0, 1]);
    let id = text(&file_method["id"]);
    let remove = ["keys", "remove", id.as_str()];
    let to = ["--to", HOLDERS[0], "--to", HOLDERS[1]];
    process.assert_fails(&[&remove[..], &to].concat(), "Use them with --rotate");
    assert_eq!(methods(&process).len(), 2, "nothing was removed");
    run_ceremony(&process, &[&remove[..], &["--rotate"]].concat(), 2, &[0, 1]);
    assert_eq!(methods(&process).len(), 1);
    assert_eq!(key_version(&process), 2);
}
