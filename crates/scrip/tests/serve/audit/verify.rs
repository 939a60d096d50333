//! `scrip audit verify`, and the file by which a rollback is found.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rusqlite::Connection;
use scrip_testing::process::{
    harness::{ProcessHarness, Running, eventually},
    terminate, wait,
};
use serde_json::Value;

use crate::operator::backup::{Scene, succeeds};

const FILES: [&str; 2] = ["scrip.db", "access.db"];

/// As an operator stops it.
fn stop(mut server: Running) {
    terminate(&server.child);
    assert!(wait(&mut server.child, Duration::from_secs(20)).unwrap().success());
}

fn verified(house: &ProcessHarness) -> Value {
    serde_json::from_slice(&succeeds(house, &["audit", "verify", "--json"]).stdout).unwrap()
}

/// How many records the logs have, but for those about the vault itself: every command adds some.
fn records(house: &ProcessHarness) -> [u64; 2] {
    let said = verified(house);
    assert_eq!(said["ok"], true, "{said}");
    FILES.map(|file| {
        let sql = format!("SELECT count(*) FROM audit WHERE tenant <> {OF_VAULT}");
        let log = Connection::open(house.data().join(file)).unwrap();
        log.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap().into()
    })
}

/// The id that records about the vault itself have in the place of a tenant's.
pub(crate) const OF_VAULT: &str = "x'00000000000000000000000000000000'";

/// What operator commands left in the vault's own chain: command, outcome and user.
fn commands(house: &ProcessHarness) -> Vec<(String, String, String)> {
    let sql = format!(
        "SELECT entity, outcome, os_user FROM audit \
         WHERE tenant = {OF_VAULT} AND operation = 'run_command' ORDER BY n"
    );
    let log = Connection::open(house.data().join("access.db")).unwrap();
    let mut statement = log.prepare(&sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

#[test]
fn operator_commands_are_recorded_with_the_system_user() {
    let house = ProcessHarness::founded(crate::SCRIP).set("SUDO_USER", "alice");
    let before = commands(&house).len();
    succeeds(&house, &["tenant", "create", "Acme", "--type", "production"]);
    succeeds(&house, &["tenant", "list"]);
    succeeds(&house, &["tenant", "quota", "show", "Acme"]);
    house.refused(&["tenant", "show", "Nobody"], "there is no tenant of that name");
    succeeds(&house, &["application", "list"]);
    succeeds(&house, &["backup", &house.path("backup").display().to_string()]);
    succeeds(&house, &["export", &house.path("export").display().to_string()]);
    succeeds(&house, &["status"]);
    succeeds(&house, &["audit", "verify"]);
    let recorded = commands(&house).split_off(before);
    let expected = [
        ("tenant create", "started"),
        ("tenant create", "completed"),
        ("tenant list", "started"),
        ("tenant list", "completed"),
        ("tenant quota show", "started"),
        ("tenant quota show", "completed"),
        ("tenant show", "started"),
        ("tenant show", "aborted"),
        ("application list", "started"),
        ("application list", "completed"),
        ("backup", "started"),
        ("backup", "completed"),
        ("export", "started"),
        ("export", "completed"),
        ("status", "completed"),
        ("audit verify", "started"),
    ];
    let outcomes: Vec<_> = recorded.iter().map(|(command, how, _)| (&**command, &**how)).collect();
    assert_eq!(outcomes, expected);
    let user = nix::unistd::User::from_uid(nix::unistd::Uid::current()).unwrap().unwrap().name;
    let user = format!("{user} (SUDO_USER alice)");
    assert!(recorded.iter().all(|(_, _, it)| *it == user), "{recorded:?}");
    // And in the chain of the tenant that was changed.
    let vault = Connection::open(house.data().join("scrip.db")).unwrap();
    let sql = "SELECT os_user FROM audit WHERE operation = 'create_tenant'";
    assert_eq!(vault.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap(), user);
}

#[test]
fn backup_and_export_without_the_root_key_have_to_be_asked_for() {
    let house = ProcessHarness::founded(crate::SCRIP);
    fs::rename(house.data().join("root.key"), house.path("elsewhere")).unwrap();
    for command in ["backup", "export"] {
        let file = house.path(command).display().to_string();
        house.refused(&[command, &file], "say --without-key");
        succeeds(&house, &[command, &file, "--without-key"]);
    }
}

#[test]
fn vault_chain_that_was_removed_is_found() {
    let house = ProcessHarness::founded(crate::SCRIP);
    succeeds(&house, &["tenant", "list"]);
    assert_eq!(verified(&house)["ok"], true);
    let log = Connection::open(house.data().join("access.db")).unwrap();
    for table in ["audit", "audit_heads"] {
        log.execute(&format!("DELETE FROM {table} WHERE tenant = {OF_VAULT}"), []).unwrap();
    }
    // Also without the file that knew how far it was.
    fs::remove_file(house.data().join("audit.head")).unwrap();
    succeeds(&house, &["tenant", "list"]);
    let said = house.run(&["audit", "verify", "--json"]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["problems"][0]["what"], "begins_otherwise", "{said}");
}

fn read(scene: &Scene, server: &Running, id: &str) -> u16 {
    let mut client = scene.client(server);
    client.ask(&format!("GET /tokens/{id}"), &[], "").unwrap().status
}

#[test]
fn an_empty_vault_has_a_trail() {
    let house = ProcessHarness::founded(crate::SCRIP);
    assert_eq!(records(&house), [0, 0]);
    succeeds(&house, &["tenant", "create", "Acme"]);
    assert_eq!(records(&house), [1, 0]);
    let head = fs::read_to_string(house.data().join("audit.head")).unwrap();
    assert_eq!(head.lines().count(), 5, "{head}");
}

#[test]
fn it_is_verified_beside_a_server_and_names_what_was_altered() {
    let scene = Scene::new();
    let server = scene.serve();
    let mut client = scene.client(&server);
    let ids: Vec<_> = (0..20).map(|it| Scene::create(&mut client, it)).collect();
    let [audit, access] = records(&scene.house);
    assert_eq!(read(&scene, &server, &ids[0]), 200);
    assert_eq!(records(&scene.house), [audit, access + 1]);
    let log = scene.house.data().join("access.db");
    let outside = Connection::open(log).unwrap();
    let of_tenant = format!("FROM audit WHERE tenant <> {OF_VAULT}");
    let tenant = format!("(SELECT tenant {of_tenant} LIMIT 1)");
    let last = format!("(SELECT max(n) {of_tenant})");
    let sql = format!("UPDATE audit SET outcome = 'masked' WHERE tenant = {tenant} AND n = {last}");
    assert_eq!(outside.execute(&sql, []).unwrap(), 1);
    let said = scene.house.run(&["audit", "verify"]);
    assert_eq!(said.status.code(), Some(1));
    let text = String::from_utf8(said.stdout).unwrap();
    let expected = format!("access log, record {}: altered", access + 1);
    assert!(text.contains(&expected) && text.contains("1 PROBLEM"), "{text}");
    let said = scene.house.run(&["audit", "verify", "--json"]);
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&said["ok"], &said["problems"][0]["what"]), (&false.into(), &"altered".into()));
}

/// The heads that are kept of the tenants' chains; that of the vault grows with every command.
fn kept_heads(house: &ProcessHarness) -> Vec<String> {
    let text = fs::read_to_string(house.data().join("audit.head")).unwrap();
    let of_tenants = text.lines().filter(|it| {
        (it.starts_with("audit ") || it.starts_with("access "))
            && !it.contains("00000000-0000-0000-0000-000000000000")
    });
    of_tenants.map(str::to_owned).collect()
}

fn copy(from: &Path, to: &Path) {
    for file in FILES {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[test]
fn a_vault_that_was_rolled_back_is_found_and_stays_found() {
    let scene = Scene::new();
    let kept = scene.house.path("kept");
    fs::create_dir(&kept).unwrap();
    let data = scene.house.data();
    let server = scene.serve();
    let id = Scene::create(&mut scene.client(&server), 0);
    stop(server);
    copy(&data, &kept);
    let server = scene.serve();
    assert_eq!(read(&scene, &server, &id), 200);
    Scene::create(&mut scene.client(&server), 1);
    // Its end is written down when it ends.
    stop(server);
    assert_eq!(verified(&scene.house)["ok"], true);
    let head = kept_heads(&scene.house);
    copy(&kept, &data);
    scene.house.refused(&["audit", "verify"], "2 problems");
    // A server that goes on from there does not make it good.
    let server = scene.serve();
    scene.house.logged("an older database was brought back");
    Scene::create(&mut scene.client(&server), 2);
    stop(server);
    assert_eq!(kept_heads(&scene.house), head);
    scene.house.refused(&["audit", "verify"], "problems");
    // Nor when both logs have become longer than they were.
    let server = scene.serve();
    for at in 3..8 {
        Scene::create(&mut scene.client(&server), at);
        assert_eq!(read(&scene, &server, &id), 200);
    }
    stop(server);
    assert_eq!(kept_heads(&scene.house), head);
    // A chain that is new is kept; what was known of the others stays.
    succeeds(&scene.house, &["tenant", "create", "Later"]);
    stop(scene.serve());
    let later = fs::read_to_string(data.join("audit.head")).unwrap();
    assert_eq!(head.len(), 2);
    assert!(head.iter().all(|it| later.lines().any(|line| line == it)), "{head:?}{later}");
    scene.house.refused(&["audit", "verify"], "2 problems");
}

#[test]
fn a_chain_that_was_removed_and_grows_again_is_found() {
    let scene = Scene::new();
    let server = scene.serve();
    let id = Scene::create(&mut scene.client(&server), 0);
    assert_eq!(read(&scene, &server, &id), 200);
    stop(server);
    let head = kept_heads(&scene.house);
    let outside = Connection::open(scene.house.data().join("access.db")).unwrap();
    for table in ["audit", "audit_heads"] {
        let sql = format!("DELETE FROM {table} WHERE tenant <> {OF_VAULT}");
        assert!(outside.execute(&sql, []).unwrap() > 0);
    }
    drop(outside);
    let server = scene.serve();
    for _ in 0..5 {
        assert_eq!(read(&scene, &server, &id), 200);
    }
    stop(server);
    assert_eq!(kept_heads(&scene.house), head);
    scene.house.refused(&["audit", "verify"], "1 problems");
}

#[test]
fn a_disk_of_the_heads_that_hangs_holds_nobody_up() {
    let scene = Scene::new();
    let server = scene.serve();
    let id = Scene::create(&mut scene.client(&server), 0);
    let file = scene.house.data().join("audit.head");
    fs::remove_file(&file).unwrap();
    // Whoever opens it waits for somebody who writes.
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    assert_eq!(read(&scene, &server, &id), 200);
    stop(server);
    scene.house.logged("the heads of the logs are not kept");
}

#[test]
fn only_one_at_a_time_writes_the_heads() {
    let house = ProcessHarness::founded(crate::SCRIP);
    let file = house.data().join("audit.head");
    let before = fs::read(&file).unwrap();
    let lock = house.data().join("audit.head.lock");
    let lock = fs::File::options().write(true).create(true).truncate(false).open(lock).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let command = scope.spawn(|| succeeds(&house, &["tenant", "create", "Acme"]));
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(fs::read(&file).unwrap(), before);
        drop(lock);
        command.join().unwrap();
    });
    assert_ne!(fs::read(&file).unwrap(), before);
}

#[test]
fn without_the_heads_it_is_not_whole() {
    let house = ProcessHarness::founded(crate::SCRIP);
    succeeds(&house, &["tenant", "create", "Acme"]);
    let file = house.data().join("audit.head");
    let head = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    house.refused(&["audit", "verify"], "1 problems");
    fs::write(&file, head.replace("audit", "adit")).unwrap();
    house.refused(&["audit", "verify"], "1 problems");
    fs::write(&file, head).unwrap();
    verified(&house);
}

#[test]
fn the_heads_can_be_kept_elsewhere() {
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("heads");
    let house =
        ProcessHarness::new(crate::SCRIP).set("SCRIP_AUDIT_HEAD_FILE", &file.display().to_string());
    succeeds(&house, &["init"]);
    assert!(file.exists() && !house.data().join("audit.head").exists());
    verified(&house);
}

#[test]
fn a_restored_vault_has_its_trail() {
    let (scene, file, ids) = Scene::with_backup(3);
    let server = scene.serve();
    assert_eq!(read(&scene, &server, &ids[0]), 200);
    stop(server);
    succeeds(&scene.house, &["backup", &file, "--force"]);
    let before = records(&scene.house);
    assert!(before[1] > 0);
    let other = scene.elsewhere();
    succeeds(&other.house, &["restore", &file]);
    assert_eq!(records(&other.house), before);
    let server = other.serve();
    assert_eq!(read(&other, &server, &ids[1]), 200);
    stop(server);
    assert_eq!(records(&other.house), [before[0], before[1] + 1]);
    // Over a vault that has come further: its heads go aside with it, and how far it was exported.
    fs::write(other.house.data().join("audit.exported"), "").unwrap();
    succeeds(&other.house, &["restore", &file, "--force"]);
    assert_eq!(records(&other.house), before);
    let mut asides = fs::read_dir(other.house.data()).unwrap().map(|it| it.unwrap().path());
    let aside = asides.find(|it| it.to_string_lossy().contains("before-restore")).unwrap();
    let moved = ["access.db", "audit.exported", "audit.head", "scrip.db"];
    assert!(moved.iter().all(|it| aside.join(it).exists()));
    assert!(!other.house.data().join("audit.exported").exists());
}

/// A small disk of memory, which only root can make.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=12m", "none"]).arg(at);
        let mounted = mount.output().is_ok_and(|it| it.status.success());
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

#[test]
fn on_a_full_disk_nothing_is_shown() {
    let scene = Scene::new();
    let data = scene.house.data();
    let moved = scene.house.path("moved");
    fs::rename(&data, &moved).unwrap();
    fs::create_dir(&data).unwrap();
    let Some(disk) = SmallDisk::mount(&data) else {
        // Not root here. What a refusing log does to reads is asked elsewhere, too.
        return;
    };
    let copied = Command::new("cp").arg("-a").arg(moved.join(".")).arg(&data).status().unwrap();
    assert!(copied.success());
    let server = scene.serve();
    let id = Scene::create(&mut scene.client(&server), 0);
    assert_eq!(read(&scene, &server, &id), 200);
    let filler = data.join("filler");
    drop(fs::write(&filler, vec![7; 12 * 1024 * 1024]));
    // What room the log of the database has left is used up first.
    let mut last = 200;
    for _ in 0..2_000 {
        last = read(&scene, &server, &id);
        if last != 200 {
            break;
        }
    }
    assert_eq!(last, 503);
    fs::remove_file(&filler).unwrap();
    assert!(eventually(|| read(&scene, &server, &id) == 200));
    stop(server);
    verified(&scene.house);
    drop(disk);
}
