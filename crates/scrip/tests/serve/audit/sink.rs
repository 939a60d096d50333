//! The audit trail told to a file or to a daemon: every record, in order, over kills and rotations.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    thread,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use scrip_testing::process::harness::{ProcessHarness, RunningServer, becomes_true};
use serde_json::{Value, json};

use crate::{
    audit::verify::VAULT_TENANT_ID,
    process::verification_codes::{send_request, serve_ready},
};

type RecordMacs = BTreeMap<(String, i64), String>;

/// Every record that the logs have of the one tenant: its log, number and mac.
fn stored_records(process: &ProcessHarness) -> RecordMacs {
    let mut all = BTreeMap::new();
    for (log, file) in [("audit", "scrip.db"), ("access", "access.db")] {
        let path = process.data().join(file);
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sql =
            format!("SELECT n, lower(hex(link)) FROM audit WHERE tenant <> {VAULT_TENANT_ID}");
        let mut statement = database.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        all.extend(rows.map(|it| it.unwrap()).map(|(n, mac)| ((log.to_owned(), n), mac)));
    }
    all
}

/// What lines tell, whose numbers never go back but to be told again.
fn records_in_lines(lines: &[Value]) -> RecordMacs {
    let mut last: BTreeMap<String, i64> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for line in lines {
        let (log, n) = (line["log"].as_str().unwrap().to_owned(), line["n"].as_i64().unwrap());
        let before = last.insert(log.clone(), n).unwrap_or(0);
        assert!(n <= before + 1, "{log} {n} comes after {before}");
        assert_eq!(line["id"], format!("{log}-{n}"));
        all.insert((log, n), line["mac"].as_str().unwrap().to_owned());
    }
    all
}

/// The lines about the tenant.
fn tenant_lines(path: &Path) -> Vec<Value> {
    let mut lines = all_lines(path);
    lines.retain(is_of_tenant);
    lines
}

fn all_lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect()
}

fn is_of_tenant(line: &Value) -> bool {
    line["tenant_id"] != "00000000-0000-0000-0000-000000000000"
}

#[test]
fn sink_lines_have_the_os_user_of_commands_and_the_api_key_of_requests() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let file = process.path("trail.jsonl");
    let process = process.with_variable("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let running = serve_ready(&process);
    create_and_read_tokens(&running, &key);
    assert!(process.run(&["tenant", "list"]).status.success());
    let of = |operation: &str| {
        let lines = all_lines(&file).into_iter();
        lines.filter(|it| it["operation"] == operation).collect::<Vec<_>>()
    };
    assert!(becomes_true(|| of("get_token").len() == 20));
    assert!(of("get_token").iter().all(|it| it["api_key_id"].is_string()));
    assert!(becomes_true(|| of("run_command").len() == 2));
    let listed = &of("run_command")[1];
    assert_eq!(
        (&listed["entity_id"], &listed["outcome"]),
        (&json!("tenant list"), &json!("completed"))
    );
    assert!(listed["os_user"].is_string() && !is_of_tenant(listed), "{listed}");
}

fn create_and_read_tokens(running: &RunningServer, key: &str) {
    for at in 0..20 {
        let (status, created) =
            send_request(running, key, "POST", "/tokens", &json!({"type": "token", "data": at}));
        assert_eq!(status, 201, "{created}");
        let path = format!("/tokens/{}", created["id"].as_str().unwrap());
        assert_eq!(send_request(running, key, "GET", &path, &Value::Null).0, 200);
    }
}

#[test]
fn file_sink_has_every_record_after_kills_and_rotation() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let file = process.path("trail.jsonl");
    let process = process.with_variable("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    for _ in 0..3 {
        let running = serve_ready(&process);
        create_and_read_tokens(&running, &key);
        // Dropped by SIGKILL, wherever the export is.
        drop(running);
    }
    let running = serve_ready(&process);
    let whole = || records_in_lines(&tenant_lines(&file)) == stored_records(&process);
    assert!(becomes_true(whole), "{} lines", tenant_lines(&file).len());
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(tenant_lines(&file).iter().any(|it| it["operation"] == "get_token"));

    let moved = process.path("trail.1");
    fs::rename(&file, &moved).unwrap();
    create_and_read_tokens(&running, &key);
    let whole = || {
        records_in_lines(&[tenant_lines(&moved), tenant_lines(&file)].concat())
            == stored_records(&process)
    };
    assert!(becomes_true(whole));
    assert!(tenant_lines(&file).len() >= 40, "the new one is used");
}

#[test]
fn file_sink_has_each_record_once_under_concurrent_writes() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let file = process.path("trail.jsonl");
    let process = process.with_variable("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let running = serve_ready(&process);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..12 {
                    create_and_read_tokens(&running, &key);
                }
            });
        }
    });
    assert!(becomes_true(|| records_in_lines(&tenant_lines(&file)) == stored_records(&process)));
    assert_eq!(tenant_lines(&file).len(), stored_records(&process).len());
}

#[test]
fn rolled_back_database_is_written_to_the_sink_from_the_beginning() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let (file, stored) = (process.path("trail.jsonl"), process.path("kept"));
    fs::create_dir(&stored).unwrap();
    let copy = |from: &Path, to: &Path| {
        for name in ["scrip.db", "access.db"] {
            for end in ["-wal", "-shm"] {
                drop(fs::remove_file(to.join(format!("{name}{end}"))));
                let log = format!("{name}{end}");
                drop(fs::copy(from.join(&log), to.join(&log)));
            }
            fs::copy(from.join(name), to.join(name)).unwrap();
        }
    };
    let process = process.with_variable("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let running = serve_ready(&process);
    create_and_read_tokens(&running, &key);
    assert!(becomes_true(|| records_in_lines(&tenant_lines(&file)) == stored_records(&process)));
    drop(running);
    copy(&process.data(), &stored);
    let running = serve_ready(&process);
    create_and_read_tokens(&running, &key);
    assert!(becomes_true(|| records_in_lines(&tenant_lines(&file)) == stored_records(&process)));
    // How far it is is written down after that; before it may be killed.
    let all = stored_records(&process);
    let is_last = |(log, n): &(String, i64)| !all.contains_key(&(log.clone(), n + 1));
    let last: Vec<_> = all.iter().filter(|(of, _)| is_last(of)).map(|(_, mac)| mac).collect();
    assert_eq!(last.len(), 2);
    let position = || fs::read_to_string(process.data().join("audit.exported")).unwrap_or_default();
    assert!(becomes_true(|| last.iter().all(|it| position().contains(*it))));
    drop(running);
    copy(&stored, &process.data());
    // It comes further than it was while nobody is told.
    let process = process.with_variable("SCRIP_AUDIT_EXPORT", "");
    let running = serve_ready(&process);
    create_and_read_tokens(&running, &key);
    create_and_read_tokens(&running, &key);
    drop(running);
    let process = process.with_variable("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let before = tenant_lines(&file).len();
    let running = serve_ready(&process);
    let is_notice = |it: &Value| it["rolled_back"] == true;
    let since = || tenant_lines(&file).split_off(before);
    let whole = || {
        let records: Vec<_> = since().into_iter().filter(|it| !is_notice(it)).collect();
        records_in_lines(&records) == stored_records(&process)
    };
    assert!(becomes_true(whole));
    assert_eq!(since().iter().filter(|it| is_notice(it)).count(), 2, "one for each log");
    drop(running);
}

#[test]
fn syslog_sink_resumes_when_the_daemon_returns() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let path = process.path("log.sock");
    let process =
        process.with_variable("SCRIP_AUDIT_EXPORT", &format!("syslog:{}", path.display()));
    let running = serve_ready(&process);
    create_and_read_tokens(&running, &key);
    process.wait_for_log("the audit trail is not exported");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut heard: Vec<Value> = Vec::new();
    let mut whole = || {
        let mut message = [0; 8192];
        while let Ok(length) = socket.recv(&mut message) {
            let text = str::from_utf8(&message[..length]).unwrap();
            let line = text.strip_prefix("<110>1 - - scrip - audit - ").expect("RFC 5424");
            heard.extend(serde_json::from_str(line).ok().filter(is_of_tenant));
        }
        records_in_lines(&heard) == stored_records(&process)
    };
    assert!(becomes_true(&mut whole));
    create_and_read_tokens(&running, &key);
    assert!(becomes_true(&mut whole));
    assert_eq!(process.log().matches("the audit trail is not exported").count(), 1, "said once");
}
