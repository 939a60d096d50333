//! Dual control with the real program and a second user.

use std::{
    fs::{self, Permissions},
    io::{self, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
        process::CommandExt,
    },
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use scrip_server::clock::ticks;
use scrip_testing::process::harness::{ProcessHarness, becomes_true};
use serde_json::{Value, json};

use crate::{
    SCRIP,
    keys::{
        compromise::send,
        methods, open_database,
        shares::{ADD_TWO_OF_TWO, HOLDERS},
        stderr, text,
    },
    operator::commands::run_json,
    process::verification_codes::{send_request, serve_ready},
};

pub(super) const SECOND_USER: u32 = 65_534;
pub(super) const THIRD_USER: u32 = 65_533;
pub(super) const GROUP: u32 = 64_000;

/// Other users need root to start a process as them.
fn is_root() -> bool {
    let is_root = nix::unistd::Uid::effective().is_root();
    if !is_root {
        let text = b"skipped: only root can run a command as a second user\n";
        io::stderr().write_all(text).unwrap();
    }
    is_root
}

/// A vault with an application, and a socket for a group.
pub(super) fn harness(dual_control: &str) -> Option<(ProcessHarness, String)> {
    if !is_root() {
        return None;
    }
    let (process, _) = ProcessHarness::with_api_key(SCRIP);
    let socket = process.path("control/scrip.sock").display().to_string();
    fs::create_dir(process.path("control")).unwrap();
    for folder in ["", "control"] {
        fs::set_permissions(process.path(folder), Permissions::from_mode(0o755)).unwrap();
    }
    let process = process
        .with_variable("SCRIP_SERVER_CONTROL_SOCKET", &socket)
        .with_variable("SCRIP_SERVER_CONTROL_GROUP", &GROUP.to_string())
        .with_variable("SCRIP_KEYS_DUAL_CONTROL", dual_control);
    let applications = run_json(&process, &["application", "list"]);
    let application = text(&applications["applications"][0]["id"]);
    Some((process, application))
}

/// Runs a command as another user of a group.
pub(super) fn run_as(process: &ProcessHarness, uid: u32, gid: u32, arguments: &[&str]) -> Output {
    process.command(arguments).uid(uid).gid(gid).output().unwrap()
}

#[track_caller]
pub(super) fn second_user(process: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = run_as(process, SECOND_USER, GROUP, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[track_caller]
pub(super) fn second_user_fails(process: &ProcessHarness, arguments: &[&str], expected: &str) {
    let output = run_as(process, SECOND_USER, GROUP, arguments);
    assert!(!output.status.success());
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}

/// Runs a command that must wait, and returns the id of its request.
#[track_caller]
pub(super) fn request(process: &ProcessHarness, arguments: &[&str]) -> String {
    let output = process.run(&[arguments, &["--wait", "0s"]].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("is not approved yet"), "{message}");
    let id = message.split("request ").nth(1).unwrap();
    id.split(' ').next().unwrap().to_owned()
}

/// The command waits, a second user approves it, and the command runs.
#[track_caller]
fn run_approved(process: &ProcessHarness, arguments: &[&str]) -> Value {
    let id = request(process, arguments);
    second_user(process, &["approve", &id, "--yes"]);
    run_json(process, arguments)
}

pub(super) fn audit_entries(process: &ProcessHarness) -> String {
    let log = rusqlite::Connection::open(process.data().join("read_log.db")).unwrap();
    let mut statement = log.prepare("SELECT entity FROM log_records ORDER BY sequence").unwrap();
    let entries = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
    entries.map(Result::unwrap).collect::<Vec<_>>().join("\n")
}

#[test]
fn api_key_is_created_once_after_the_approval_of_a_second_user() {
    let Some((process, application)) = harness("true") else { return };
    let _server = serve_ready(&process);
    let create = ["key", "create", &application];
    let id = request(&process, &create);
    assert_eq!(request(&process, &create), id, "the same command has one request");
    process.assert_fails(&["approve", &id, "--yes"], "another user must approve it");
    second_user_fails(&process, &["approve", &id], "Use --yes to approve this action");
    process.assert_fails(&["key", "create", &application, "--wait", "0s"], "is not approved yet");
    let listed = second_user(&process, &["approvals"]);
    let action = text(&listed["requests"][0]["action"]);
    // With names, for the second person, and ids, because names can change.
    assert!(
        action.starts_with(&format!(r#"key create {{"application":"{application}""#)),
        "{action}"
    );
    for part in [r#""application_name":"Management""#, r#""tenant_name":"Development""#] {
        assert!(action.contains(part), "{action}");
    }
    second_user(&process, &["approve", &id.to_uppercase(), "--yes"]);
    assert!(run_json(&process, &create)["key"].is_string());
    let next = request(&process, &create);
    assert_ne!(next, id, "the approval is used");
    second_user(&process, &["reject", &next, "--yes"]);
    let entries = audit_entries(&process);
    for expected in [
        "dual control on by the setting".to_owned(),
        format!("approval {id} request by uid 0: {action}"),
        format!("approval {id} approve by uid {SECOND_USER}, requested by uid 0: {action}"),
        format!("approval {id} use by uid 0, approved by uid {SECOND_USER}: {action}"),
        format!("approval {next} reject by uid {SECOND_USER}, requested by uid 0: {action}"),
    ] {
        assert!(entries.contains(&expected), "{expected}: {entries}");
    }
}

#[test]
fn waiting_command_continues_after_the_approval() {
    let Some((process, _)) = harness("true") else { return };
    let _server = serve_ready(&process);
    let file = process.path("unlock.key").display().to_string();
    thread::scope(|scope| {
        let command = scope.spawn(|| process.run(&["keys", "add", "file", &file]));
        let find = || second_user(&process, &["approvals"])["requests"].as_array().unwrap().clone();
        assert!(becomes_true(|| !find().is_empty()));
        let id = text(&find()[0]["id"]);
        second_user(&process, &["approve", &id, "--yes"]);
        let output = command.join().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    });
    assert_eq!(methods(&process).len(), 2);
    // A rejected command ends.
    let remove = text(&methods(&process)[1]["id"]);
    thread::scope(|scope| {
        let command = scope.spawn(|| process.run(&["keys", "remove", &remove]));
        let find = || second_user(&process, &["approvals"])["requests"].as_array().unwrap().clone();
        assert!(becomes_true(|| !find().is_empty()));
        second_user(&process, &["reject", &text(&find()[0]["id"]), "--yes"]);
        let output = command.join().unwrap();
        assert!(stderr(&output).contains("was rejected or has expired"), "{}", stderr(&output));
    });
    assert_eq!(methods(&process).len(), 2);
}

/// Every command that creates or changes access to data.
#[test]
fn all_sensitive_commands_wait_for_an_approval() {
    let Some((process, application)) = harness("true") else { return };
    // The server checks the key of a new method before it stores a request.
    let process =
        process.with_variable("SCRIP_UNLOCK_A", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    let server = serve_ready(&process);
    let tenant = text(&run_json(&process, &["tenant", "list"])["tenants"][0]["id"]);
    let key = text(&run_approved(&process, &["key", "create", &application])["key"]);
    let proxy = json!({"name": "x", "destination_url": "https://psp.example"});
    let (status, proxy) = send_request(&server, &key, "POST", "/proxies", &proxy);
    assert_eq!(status, 201, "{proxy}");
    let proxy = text(&proxy["id"]);
    let deleted = run_json(&process, &["tenant", "create", "deleted", "--type", "production"]);
    let deleted = text(&deleted["id"]);
    run_approved(&process, &["tenant", "delete", &deleted, "--yes"]);
    let backup = process.path("backup").display().to_string();
    fs::write(process.path("key.txt"), "key_test_imported_0123456789abcdef").unwrap();
    let key_file = process.path("key.txt").display().to_string();
    let method = text(&methods(&process)[0]["id"]);
    let create = ["application", "create", "--tenant", &tenant, "--name", "x", "--type", "private"];
    let create = [&create[..], &["--permission", "token:read"]].concat();
    let add_shares = [&ADD_TWO_OF_TWO[..], &["--to", HOLDERS[0], "--to", HOLDERS[1]]].concat();
    let commands: [&[&str]; 19] = [
        &["keys", "add", "env", "SCRIP_UNLOCK_A"],
        &add_shares,
        &["keys", "remove", &method],
        &["keys", "rotate", "vault"],
        &["keys", "rotate", "tenant", &tenant],
        &["keys", "rotate", "tenant", "--all"],
        &["export", &backup],
        &["backup", &backup],
        &["backup", &backup, "--without-root-key"],
        &["tenant", "delete", &tenant, "--yes"],
        &["tenant", "delete", &tenant, "--yes", "--now"],
        &["tenant", "restore", &deleted],
        &["tenant", "quota", "set", &tenant, "log_retention=30d"],
        &create,
        &["proxy", "host", "add", "pay.example", &proxy],
        &["key", "create", &application],
        &["key", "import", &application, "--file", &key_file],
        &["policy", "restore", "--from", &key_file, "--tenant", &tenant, "--yes"],
        &["keys", "rotate", "fingerprints", "--yes"],
    ];
    let ids: Vec<_> = commands.iter().map(|it| request(&process, it)).collect();
    let requests = second_user(&process, &["approvals"])["requests"].as_array().unwrap().clone();
    assert_eq!(requests.len(), ids.len(), "every command has its own request");
    assert!(!process.path("backup").exists());
    assert_eq!(run_json(&process, &["tenant", "list"])["tenants"].as_array().unwrap().len(), 1);
}

#[test]
fn setting_false_does_not_switch_off_and_off_needs_an_approval() {
    let Some((process, application)) = harness("true") else { return };
    let server = serve_ready(&process);
    let off = ["keys", "dual-control", "off"];
    process.assert_fails(&off, "keys.dual_control is true");
    drop(server);
    let process = process.with_variable("SCRIP_KEYS_DUAL_CONTROL", "false");
    let create = ["key", "create", &application];
    process.assert_fails(&create, "needs a running server");
    process.assert_fails(&["dev", "--json"], "no vault with dual control");
    let server = serve_ready(&process);
    process.wait_for_log("dual control is on, although keys.dual_control is false");
    let status = run_json(&process, &["keys", "dual-control", "status"]);
    assert_eq!((&status["is_on"], &status["is_set"]), (&true.into(), &false.into()));
    request(&process, &create);
    run_approved(&process, &off);
    assert!(run_json(&process, &create)["key"].is_string());
    drop(server);
    assert!(run_json(&process, &create)["key"].is_string(), "also without a server");
}

#[test]
fn database_writer_cannot_switch_off_or_forge_an_approval() {
    let Some((process, application)) = harness("true") else { return };
    let server = serve_ready(&process);
    process.wait_for_log("dual control is on");
    drop(server);
    let process = process.with_variable("SCRIP_KEYS_DUAL_CONTROL", "false");
    let create = ["key", "create", &application];
    open_database(&process).execute_batch("UPDATE dual_control SET is_on = 0").unwrap();
    process.assert_fails(&create, "was altered outside the vault");
    let server = serve_ready(&process);
    let id = request(&process, &create);
    let sql = "UPDATE approvals SET approved_by = 65534, approved_at = requested_at";
    open_database(&process).execute_batch(sql).unwrap();
    assert_ne!(request(&process, &create), id, "the forged row is ignored");
    // While the server runs, it also notices that the rows are missing.
    open_database(&process)
        .execute_batch("DELETE FROM dual_control; DELETE FROM approvals")
        .unwrap();
    request(&process, &create);
    process.wait_for_log("rows of dual control were altered outside the vault");
    drop(server);
    let output = process.run(&["doctor"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("dual control"), "{output:?}");
}

#[test]
fn operators_of_the_group_have_few_rights_without_dual_control() {
    let Some((process, _)) = harness("false") else { return };
    let _server = serve_ready(&process);
    second_user_fails(&process, &["keys", "rotate", "vault"], "only the user of the server");
    let on = ["keys", "dual-control", "on"];
    second_user_fails(&process, &on, "only the user of the server");
    assert_eq!(second_user(&process, &["keys", "list"])["methods"].as_array().unwrap().len(), 1);
    assert_eq!(second_user(&process, &["keys", "dual-control", "status"])["is_on"], false);
    let output = run_as(&process, SECOND_USER, GROUP, &["doctor"]);
    let report = String::from_utf8_lossy(&output.stdout);
    for check in ["control socket", "server"] {
        let line = format!("warning  {check:<14}  not checked: ");
        assert!(report.contains(&line), "{report}");
    }
    let output = run_as(&process, THIRD_USER, THIRD_USER, &["approvals"]);
    assert!(stderr(&output).contains("may not use the control socket"), "{}", stderr(&output));
    // Under dual control, an operator of the group may ask for a change, and the server's user
    // approves it.
    run_json(&process, &on);
    let rotate = ["keys", "rotate", "vault"];
    let output = run_as(&process, SECOND_USER, GROUP, &[&rotate[..], &["--wait", "0s"]].concat());
    let message = stderr(&output);
    let id = message.split("request ").nth(1).unwrap().split(' ').next().unwrap();
    second_user_fails(&process, &["approve", id, "--yes"], "another user must approve it");
    run_json(&process, &["approve", id, "--yes"]);
    assert_eq!(second_user(&process, &rotate)["to"], 2);
}

#[test]
fn approved_export_runs_once_after_the_server_was_stopped() {
    let Some((process, _)) = harness("true") else { return };
    let server = serve_ready(&process);
    let file = process.path("exported").display().to_string();
    let export = ["export", &file];
    let id = request(&process, &export);
    second_user(&process, &["approve", &id, "--yes"]);
    process.assert_fails(&export, "is approved. Stop every server");
    drop(server);
    let other = process.path("other").display().to_string();
    process.assert_fails(&["export", &other], "this command is not approved");
    process.assert_fails(&["export", &file, "--without-root-key"], "needs the vault key");
    // A prepared temporary file must not look like an interrupted export.
    fs::write(process.path("exported.tmp"), "prepared").unwrap();
    run_json(&process, &export);
    assert!(process.path("exported").exists());
    let records = audit_entries(&process).lines().filter(|it| *it == "export").count();
    assert_eq!(records, 2, "the start and the end are recorded");
    fs::remove_file(process.path("exported")).unwrap();
    fs::write(process.path("exported.tmp"), "prepared").unwrap();
    process.assert_fails(&export, "this command is not approved");
    assert!(audit_entries(&process).contains(&format!("approval {id} use by uid 0")));
}

#[test]
fn dual_control_stays_on_after_a_compromise_and_earlier_requests_end() {
    let Some((process, application)) = harness("true") else { return };
    let process = process.with_variable("SCRIP_KEYS_PROMOTE_AFTER_SECONDS", "1");
    let server = serve_ready(&process);
    let create = ["key", "create", &application];
    let earlier = request(&process, &create);
    let file = process.path("new-keys").display().to_string();
    let rotate = ["keys", "rotate", "vault", "--compromised", "--yes", "--new-keys", &file];
    assert_eq!(run_approved(&process, &rotate)["to"], 2);
    let status = ["keys", "rotation", "status"];
    assert!(becomes_true(|| run_json(&process, &status)["audit_key"] == "current"));
    let status = run_json(&process, &["keys", "dual-control", "status"]);
    assert_eq!((&status["is_on"], &status["is_altered"]), (&true.into(), &false.into()));
    second_user_fails(&process, &["approve", &earlier, "--yes"], "does not exist");
    assert!(run_approved(&process, &create)["key"].is_string());
    // A restart has only the new keys to verify the row.
    drop(server);
    let _server = serve_ready(&process);
    let status = run_json(&process, &["keys", "dual-control", "status"]);
    assert_eq!((&status["is_on"], &status["is_altered"]), (&true.into(), &false.into()));
}

/// A person could put such a socket into a directory in which another one enters a share.
#[test]
fn socket_of_another_user_gets_no_share() {
    let Some((process, _)) = harness("false") else { return };
    let _server = serve_ready(&process);
    let folder = process.path("fake");
    fs::create_dir(&folder).unwrap();
    let listener = UnixListener::bind(folder.join("scrip.sock")).unwrap();
    for path in [folder.clone(), folder.join("scrip.sock")] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = process.command(&["unseal"]);
    command.env("SCRIP_STORAGE_DATA_DIR", &folder).uid(SECOND_USER).gid(GROUP);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "scrip1-share").unwrap();
    let output = child.wait_with_output().unwrap();
    // The command used the socket of the settings.
    assert!(stderr(&output).contains("the vault is open"), "{}", stderr(&output));
    let (mut client, _) = listener.accept().unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).unwrap();
    assert_eq!(received, "");
}

/// Sends one line to a socket and prints the answer.
const SEND_LINE: &str = "import socket, sys; it = socket.socket(socket.AF_UNIX); \
    it.connect(sys.argv[1]); it.sendall(sys.argv[2].encode() + b'\\n'); \
    print(it.makefile().readline())";

#[test]
fn waiting_rotation_is_not_confirmed_by_another_operator() {
    let Some((process, _)) = harness("true") else { return };
    let _server = serve_ready(&process);
    let start = json!({ "command": "rotate_vault", "count": null, "compromised": true });
    let request = text(&send(&process, &start)["waiting"]["id"]);
    second_user(&process, &["approve", &request, "--yes"]);
    let rotation = send(&process, &start)["result"]["id"].clone();
    let confirm = json!({ "command": "confirm_rotation", "rotation": rotation, "shares": [] });
    let mut command = Command::new("python3");
    command.args(["-c", SEND_LINE]).arg(process.path("control/scrip.sock"));
    command.arg(confirm.to_string()).uid(SECOND_USER).gid(GROUP);
    let answer = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(answer.contains("does not wait any more"), "{answer}");
    assert_eq!(send(&process, &confirm)["result"]["to"], 2);
}

#[test]
fn silent_clients_do_not_block_the_control_sockets() {
    let Some((process, _)) = harness("false") else { return };
    let _server = serve_ready(&process);
    let sockets = [process.path("control/scrip.sock"), process.data().join("scrip.sock")];
    for socket in &sockets {
        let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(socket).unwrap()).collect();
        let start = ticks();
        assert_eq!(run_json(&process, &["approvals"])["requests"].as_array().unwrap().len(), 0);
        second_user(&process, &["approvals"]);
        assert!(ticks() - start < Duration::from_secs(10));
        drop(silent);
    }
}

#[test]
fn command_that_cannot_open_the_vault_requests_no_approval() {
    let Some((process, application)) = harness("true") else { return };
    let server = serve_ready(&process);
    let refusal = "this command opens the vault itself, which this process cannot do";
    let file = process.path("backup").display().to_string();
    second_user_fails(&process, &["backup", &file], "cannot be used: Permission denied");
    fs::write(&file, "").unwrap();
    let restore = ["policy", "restore", "--from", &file, "--tenant", &application, "--yes"];
    second_user_fails(&process, &restore, refusal);
    process
        .assert_fails(&["policy", "restore", "--from", "x", "--tenant", "x", "--yes"], "x cannot");
    // The new key file would belong to the operator.
    let folder = process.path("operator");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let file = folder.join("unlock.key").display().to_string();
    let refusal = format!("belongs to user {SECOND_USER}");
    second_user_fails(&process, &["keys", "add", "file", &file], &refusal);
    assert!(!fs::exists(&file).unwrap(), "no method uses the file");
    assert_eq!(run_json(&process, &["approvals"])["requests"], json!([]));
    drop(server);
    let [private, shared] =
        [process.data(), process.path("control")].map(|it| it.join("scrip.sock"));
    let sockets = format!(
        "no server answers: tried {} (permission denied) and {} (connection refused)",
        private.display(),
        shared.display()
    );
    second_user_fails(&process, &["keys", "list"], &sockets);
    second_user_fails(&process, &["approvals"], &sockets);
}
