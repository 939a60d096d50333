//! The audit sink, a file or a syslog daemon, gets every record in order, across kills and
//! rotations.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt, net::UnixDatagram},
    path::Path,
    thread,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use scrip_server::control::status::query_status;
use scrip_testing::{
    process::harness::{ProcessHarness, RunningServer, becomes_true},
    requests::assert_members,
};
use serde_json::{Value, json};

use crate::{
    audit::verify::VAULT_TENANT_ID,
    process::verification_codes::{send_request, serve_ready},
};

type RecordMacs = BTreeMap<(String, i64), String>;

/// Returns the sequence numbers and MACs of all stored records of the tenant, by log.
fn stored_records(process: &ProcessHarness) -> RecordMacs {
    let mut records = BTreeMap::new();
    for (log, file) in [("audit", "scrip.db"), ("read", "read_log.db")] {
        let path = process.data().join(file);
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sql = format!(
            "SELECT sequence, lower(hex(link)) FROM log_records WHERE tenant <> {VAULT_TENANT_ID}"
        );
        let mut statement = database.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        records.extend(rows.map(|it| it.unwrap()).map(|(n, mac)| ((log.to_owned(), n), mac)));
    }
    records
}

/// Parses the records of these lines. Expects that sequence numbers have no gaps and decrease only
/// when records are repeated.
fn records_in_lines(lines: &[Value]) -> RecordMacs {
    let mut last_sequences: BTreeMap<String, i64> = BTreeMap::new();
    let mut records = BTreeMap::new();
    for line in lines {
        let (log, sequence) =
            (line["log"].as_str().unwrap().to_owned(), line["sequence"].as_i64().unwrap());
        let previous = last_sequences.insert(log.clone(), sequence).unwrap_or(0);
        assert!(sequence <= previous + 1, "sequence {sequence} of log {log} follows {previous}");
        assert_eq!(line["id"], format!("{log}-{sequence}"));
        records.insert((log, sequence), line["mac"].as_str().unwrap().to_owned());
    }
    records
}

/// Returns the lines about the tenant.
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
    let process = process.with_variable("SCRIP_AUDIT_SINK", &format!("file:{}", file.display()));
    let server = serve_ready(&process);
    create_and_read_tokens(&server, &key);
    assert!(process.run(&["tenant", "list"]).status.success());
    let lines_of = |operation: &str| {
        let lines = all_lines(&file).into_iter();
        lines.filter(|it| it["operation"] == operation).collect::<Vec<_>>()
    };
    assert!(becomes_true(|| lines_of("get_token").len() == 20));
    assert!(lines_of("get_token").iter().all(|it| it["api_key_id"].is_string()));
    let command_lines = || {
        let lines = lines_of("run_command").into_iter();
        lines.filter(|it| it["entity_id"] == "tenant list").collect::<Vec<_>>()
    };
    assert!(becomes_true(|| command_lines().len() == 2));
    let command_line = &command_lines()[1];
    assert_members(command_line, &json!({"entity_id": "tenant list", "outcome": "completed"}));
    assert!(command_line["os_user"].is_string() && !is_of_tenant(command_line), "{command_line}");
}

fn create_and_read_tokens(server: &RunningServer, key: &str) {
    for index in 0..20 {
        let (status, created) =
            send_request(server, key, "POST", "/tokens", &json!({"type": "token", "data": index}));
        assert_eq!(status, 201, "{created}");
        let path = format!("/tokens/{}", created["id"].as_str().unwrap());
        assert_eq!(send_request(server, key, "GET", &path, &Value::Null).0, 200);
    }
}

#[test]
fn file_sink_has_every_record_after_kills_and_rotation() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let file = process.path("trail.jsonl");
    let process = process.with_variable("SCRIP_AUDIT_SINK", &format!("file:{}", file.display()));
    for _ in 0..3 {
        let server = serve_ready(&process);
        create_and_read_tokens(&server, &key);
        // `drop` kills the server with SIGKILL at an arbitrary position of the sink.
        drop(server);
    }
    let server = serve_ready(&process);
    let is_complete = || records_in_lines(&tenant_lines(&file)) == stored_records(&process);
    assert!(becomes_true(is_complete), "{} lines", tenant_lines(&file).len());
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(tenant_lines(&file).iter().any(|it| it["operation"] == "get_token"));

    let rotated_file = process.path("trail.1");
    fs::rename(&file, &rotated_file).unwrap();
    create_and_read_tokens(&server, &key);
    let is_complete = || {
        records_in_lines(&[tenant_lines(&rotated_file), tenant_lines(&file)].concat())
            == stored_records(&process)
    };
    assert!(becomes_true(is_complete));
    assert!(tenant_lines(&file).len() >= 40, "the sink does not use the new file");
}

#[test]
fn file_sink_has_each_record_once_under_concurrent_writes() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let file = process.path("trail.jsonl");
    let process = process.with_variable("SCRIP_AUDIT_SINK", &format!("file:{}", file.display()));
    let server = serve_ready(&process);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..12 {
                    create_and_read_tokens(&server, &key);
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
    let (file, copy_folder) = (process.path("trail.jsonl"), process.path("copy"));
    fs::create_dir(&copy_folder).unwrap();
    let copy_databases = |source: &Path, target: &Path| {
        for name in ["scrip.db", "read_log.db"] {
            for suffix in ["-wal", "-shm"] {
                drop(fs::remove_file(target.join(format!("{name}{suffix}"))));
                let file_name = format!("{name}{suffix}");
                drop(fs::copy(source.join(&file_name), target.join(&file_name)));
            }
            fs::copy(source.join(name), target.join(name)).unwrap();
        }
    };
    let process = process.with_variable("SCRIP_AUDIT_SINK", &format!("file:{}", file.display()));
    let server = serve_ready(&process);
    create_and_read_tokens(&server, &key);
    assert!(becomes_true(|| records_in_lines(&tenant_lines(&file)) == stored_records(&process)));
    drop(server);
    copy_databases(&process.data(), &copy_folder);
    let server = serve_ready(&process);
    create_and_read_tokens(&server, &key);
    assert!(becomes_true(|| records_in_lines(&tenant_lines(&file)) == stored_records(&process)));
    // The sink position is saved later, and the process may be killed before that.
    let stored = stored_records(&process);
    let is_last =
        |(log, sequence): &(String, i64)| !stored.contains_key(&(log.clone(), sequence + 1));
    let last_macs: Vec<_> =
        stored.iter().filter(|(record, _)| is_last(record)).map(|(_, mac)| mac).collect();
    assert_eq!(last_macs.len(), 2);
    let read_position =
        || fs::read_to_string(process.data().join("audit.sink-position")).unwrap_or_default();
    assert!(becomes_true(|| last_macs.iter().all(|it| read_position().contains(*it))));
    drop(server);
    copy_databases(&copy_folder, &process.data());
    // The database continues past that position while the sink is off.
    let process = process.with_variable("SCRIP_AUDIT_SINK", "");
    let server = serve_ready(&process);
    create_and_read_tokens(&server, &key);
    create_and_read_tokens(&server, &key);
    drop(server);
    let process = process.with_variable("SCRIP_AUDIT_SINK", &format!("file:{}", file.display()));
    let lines_before = tenant_lines(&file).len();
    let server = serve_ready(&process);
    let is_notice = |it: &Value| it["rolled_back"] == true;
    let new_lines = || tenant_lines(&file).split_off(lines_before);
    let is_complete = || {
        let records: Vec<_> = new_lines().into_iter().filter(|it| !is_notice(it)).collect();
        records_in_lines(&records) == stored_records(&process)
    };
    assert!(becomes_true(is_complete));
    assert_eq!(new_lines().iter().filter(|it| is_notice(it)).count(), 2, "one notice for each log");
    drop(server);
}

#[test]
fn syslog_sink_resumes_when_the_daemon_returns() {
    let (process, key) = ProcessHarness::with_api_key(crate::SCRIP);
    let path = process.path("log.sock");
    let process = process.with_variable("SCRIP_AUDIT_SINK", &format!("syslog:{}", path.display()));
    let server = serve_ready(&process);
    create_and_read_tokens(&server, &key);
    process.wait_for_log("audit records were not written to the sink");
    let sink_cause = || query_status(&process.data()).unwrap().audit_sink_cause;
    assert!(sink_cause().unwrap().contains("the audit sink cannot be written"));
    let printed = || String::from_utf8(process.run(&["doctor"]).stdout).unwrap();
    assert!(printed().contains("ERROR    audit sink"), "{}", printed());
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut received_lines: Vec<Value> = Vec::new();
    let mut is_complete = || {
        let mut message = [0; 8192];
        while let Ok(length) = socket.recv(&mut message) {
            let text = str::from_utf8(&message[..length]).unwrap();
            let line = text.strip_prefix("<110>1 - - scrip - audit - ").expect("RFC 5424");
            received_lines.extend(serde_json::from_str(line).ok().filter(is_of_tenant));
        }
        records_in_lines(&received_lines) == stored_records(&process)
    };
    assert!(becomes_true(&mut is_complete));
    create_and_read_tokens(&server, &key);
    assert!(becomes_true(&mut is_complete));
    assert!(becomes_true(|| sink_cause().is_none()));
    assert!(printed().contains("ok       audit sink"), "{}", printed());
    let warnings = process.log().matches("audit records were not written to the sink").count();
    assert_eq!(warnings, 1, "the warning was repeated");
}
