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
use scrip_testing::process::harness::{ProcessHarness, Running, eventually};
use serde_json::{Value, json};

use crate::{
    audit::verify::OF_VAULT,
    process::verification_codes::{ask, opened},
};

type Records = BTreeMap<(String, i64), String>;

/// Every record that the logs have of the one tenant: its log, number and mac.
fn recorded(house: &ProcessHarness) -> Records {
    let mut all = BTreeMap::new();
    for (log, file) in [("audit", "scrip.db"), ("access", "access.db")] {
        let path = house.data().join(file);
        let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let sql = format!("SELECT n, lower(hex(link)) FROM audit WHERE tenant <> {OF_VAULT}");
        let mut statement = database.prepare(&sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        all.extend(rows.map(|it| it.unwrap()).map(|(n, mac)| ((log.to_owned(), n), mac)));
    }
    all
}

/// What lines tell, whose numbers never go back but to be told again.
fn told(lines: &[Value]) -> Records {
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
fn lines(path: &Path) -> Vec<Value> {
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
fn export_tells_commands_with_their_user_and_requests_with_their_key() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let file = house.path("trail.jsonl");
    let house = house.set("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let running = opened(&house);
    work(&running, &key);
    assert!(house.run(&["tenant", "list"]).status.success());
    let of = |operation: &str| {
        let lines = all_lines(&file).into_iter();
        lines.filter(|it| it["operation"] == operation).collect::<Vec<_>>()
    };
    assert!(eventually(|| of("get_token").len() == 20));
    assert!(of("get_token").iter().all(|it| it["api_key_id"].is_string()));
    assert!(eventually(|| of("run_command").len() == 2));
    let listed = &of("run_command")[1];
    assert_eq!(
        (&listed["entity_id"], &listed["outcome"]),
        (&json!("tenant list"), &json!("completed"))
    );
    assert!(listed["os_user"].is_string() && !is_of_tenant(listed), "{listed}");
}

fn work(running: &Running, key: &str) {
    for at in 0..20 {
        let (status, made) =
            ask(running, key, "POST", "/tokens", &json!({"type": "token", "data": at}));
        assert_eq!(status, 201, "{made}");
        let path = format!("/tokens/{}", made["id"].as_str().unwrap());
        assert_eq!(ask(running, key, "GET", &path, &Value::Null).0, 200);
    }
}

#[test]
fn a_file_has_every_record_over_kills_and_rotation() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let file = house.path("trail.jsonl");
    let house = house.set("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    for _ in 0..3 {
        let running = opened(&house);
        work(&running, &key);
        // Dropped by SIGKILL, wherever the export is.
        drop(running);
    }
    let running = opened(&house);
    let whole = || told(&lines(&file)) == recorded(&house);
    assert!(eventually(whole), "{} lines", lines(&file).len());
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(lines(&file).iter().any(|it| it["operation"] == "get_token"));

    let moved = house.path("trail.1");
    fs::rename(&file, &moved).unwrap();
    work(&running, &key);
    let whole = || told(&[lines(&moved), lines(&file)].concat()) == recorded(&house);
    assert!(eventually(whole));
    assert!(lines(&file).len() >= 40, "the new one is used");
}

#[test]
fn every_record_is_told_once_while_others_are_written() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let file = house.path("trail.jsonl");
    let house = house.set("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let running = opened(&house);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..12 {
                    work(&running, &key);
                }
            });
        }
    });
    assert!(eventually(|| told(&lines(&file)) == recorded(&house)));
    assert_eq!(lines(&file).len(), recorded(&house).len());
}

#[test]
fn a_database_that_was_brought_back_is_told_from_its_beginning() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let (file, kept) = (house.path("trail.jsonl"), house.path("kept"));
    fs::create_dir(&kept).unwrap();
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
    let house = house.set("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let running = opened(&house);
    work(&running, &key);
    assert!(eventually(|| told(&lines(&file)) == recorded(&house)));
    drop(running);
    copy(&house.data(), &kept);
    let running = opened(&house);
    work(&running, &key);
    assert!(eventually(|| told(&lines(&file)) == recorded(&house)));
    // How far it is is written down after that; before it may be killed.
    let all = recorded(&house);
    let is_last = |(log, n): &(String, i64)| !all.contains_key(&(log.clone(), n + 1));
    let last: Vec<_> = all.iter().filter(|(of, _)| is_last(of)).map(|(_, mac)| mac).collect();
    assert_eq!(last.len(), 2);
    let position = || fs::read_to_string(house.data().join("audit.exported")).unwrap_or_default();
    assert!(eventually(|| last.iter().all(|it| position().contains(*it))));
    drop(running);
    copy(&kept, &house.data());
    // It comes further than it was while nobody is told.
    let house = house.set("SCRIP_AUDIT_EXPORT", "");
    let running = opened(&house);
    work(&running, &key);
    work(&running, &key);
    drop(running);
    let house = house.set("SCRIP_AUDIT_EXPORT", &format!("file:{}", file.display()));
    let before = lines(&file).len();
    let running = opened(&house);
    let is_notice = |it: &Value| it["rolled_back"] == true;
    let since = || lines(&file).split_off(before);
    let whole = || {
        let records: Vec<_> = since().into_iter().filter(|it| !is_notice(it)).collect();
        told(&records) == recorded(&house)
    };
    assert!(eventually(whole));
    assert_eq!(since().iter().filter(|it| is_notice(it)).count(), 2, "one for each log");
    drop(running);
}

#[test]
fn a_daemon_that_comes_back_is_told_the_rest() {
    let (house, key) = ProcessHarness::with_key(crate::SCRIP);
    let path = house.path("log.sock");
    let house = house.set("SCRIP_AUDIT_EXPORT", &format!("syslog:{}", path.display()));
    let running = opened(&house);
    work(&running, &key);
    house.logged("the audit trail is not exported");
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
        told(&heard) == recorded(&house)
    };
    assert!(eventually(&mut whole));
    work(&running, &key);
    assert!(eventually(&mut whole));
    assert_eq!(house.log().matches("the audit trail is not exported").count(), 1, "said once");
}
