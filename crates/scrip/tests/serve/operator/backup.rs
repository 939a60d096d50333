//! `scrip backup` and `scrip restore`: what comes back, and what is refused.

use std::{
    collections::HashSet,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use rusqlite::Connection;
use scrip_seal::Checksum;
use scrip_testing::{
    process::{
        client::{Access, Client},
        harness::{ProcessHarness, Running, eventually},
    },
    requests::card_number,
};
use serde_json::{Value, json};

/// A server on a vault with an application that may do everything.
pub(crate) struct Scene {
    pub(crate) house: ProcessHarness,
    key: String,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (house, key) = ProcessHarness::with_key(crate::SCRIP);
        Self { house, key }
    }

    /// A second machine: the root key, and nothing else.
    pub(crate) fn elsewhere(&self) -> Self {
        let house = ProcessHarness::new(crate::SCRIP);
        fs::create_dir(house.data()).unwrap();
        fs::copy(self.house.data().join("root.key"), house.data().join("root.key")).unwrap();
        Self { house, key: self.key.clone() }
    }

    pub(crate) fn serve(&self) -> Running {
        let server = self.house.serve();
        assert!(eventually(|| server.status("/readyz") == 200), "{}", self.house.log());
        server
    }

    pub(crate) fn client(&self, server: &Running) -> Client {
        let hello = json!({ "keys": { "private": self.key } });
        Client::connect(&Access { address: server.address, hello }).expect("it listens")
    }

    /// Makes the token with this place in the series, once.
    pub(crate) fn create(client: &mut Client, place: u64) -> String {
        let key = format!("backup-{place}");
        let headers = [("Content-Type", "application/json"), ("BT-IDEMPOTENCY-KEY", key.as_str())];
        let data = json!({ "number": card_number(place), "expiration_month": 12, "cvc": "123" });
        let body = json!({ "type": "card", "data": data }).to_string();
        let answer = client.ask("POST /tokens", &headers, &body).expect("an answer");
        assert_eq!(answer.status, 201);
        let body: Value = serde_json::from_str(&answer.body).expect("JSON");
        body["id"].as_str().expect("an id").to_owned()
    }

    pub(crate) fn get(client: &mut Client, id: &str) -> Option<Value> {
        let answer = client.ask(&format!("GET /tokens/{id}"), &[], "").expect("an answer");
        (answer.status == 200).then(|| serde_json::from_str(&answer.body).expect("JSON"))
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.house.path(name).display().to_string()
    }

    /// A backup of some tokens, and their ids.
    pub(crate) fn with_backup(count: u64) -> (Self, String, Vec<String>) {
        let scene = Self::new();
        let server = scene.serve();
        let mut client = scene.client(&server);
        let ids = (0..count).map(|it| Self::create(&mut client, it)).collect();
        let file = scene.path("backup");
        succeeds(&scene.house, &["backup", &file]);
        (scene, file, ids)
    }

    /// Every token there is can be opened, and these are among them.
    #[track_caller]
    pub(crate) fn has(&self, ids: &[String]) {
        let there = stored(&self.house.data());
        let server = self.serve();
        let mut client = self.client(&server);
        for id in &there {
            assert!(Self::get(&mut client, id).is_some(), "{id} does not open");
        }
        for (place, id) in (0..).zip(ids) {
            let token = Self::get(&mut client, id).expect("it was acknowledged");
            assert_eq!(token["data"]["number"], card_number(place));
        }
    }
}

#[track_caller]
pub(crate) fn succeeds(house: &ProcessHarness, arguments: &[&str]) -> Output {
    let output = house.run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[track_caller]
fn json_of(house: &ProcessHarness, arguments: &[&str]) -> Value {
    let output = succeeds(house, &[arguments, &["--json"]].concat());
    assert!(output.stderr.is_empty(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The ids in the database itself, which is sound.
pub(crate) fn stored(data: &Path) -> HashSet<String> {
    let connection = Connection::open(data.join("scrip.db")).unwrap();
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let mut statement = connection.prepare("SELECT id FROM tokens").unwrap();
    let ids = statement.query_map([], |row| row.get(0)).unwrap();
    ids.map(Result::unwrap).collect()
}

#[test]
fn what_was_acknowledged_before_a_backup_is_in_it() {
    let (scene, file, ids) = Scene::with_backup(20);
    let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let other = scene.elsewhere();
    let said = succeeds(&other.house, &["restore", &file]).stdout;
    let said = String::from_utf8(said).unwrap();
    for expected in ["1 tenant and 20 tokens", "just now", "deleted since are back", "codes"] {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!other.house.data().join("restoring.db").exists());
    other.has(&ids);
    // An answer is remembered there too, and the token has no code.
    let server = other.serve();
    let mut client = other.client(&server);
    assert_eq!(Scene::create(&mut client, 7), ids[7]);
    assert_eq!(stored(&other.house.data()).len(), 20);
    let token = Scene::get(&mut client, &ids[7]).unwrap();
    assert!(token["data"].get("cvc").is_none());
    assert_ne!(Scene::create(&mut client, 20), ids[7]);
}

/// Creates go on while it is made, for as long as it takes: it stands still until the log is past
/// the mark at which it would start over, and then some. Nobody waits for what cannot happen.
#[cfg(target_os = "linux")]
#[test]
fn a_backup_beside_a_busy_server_keeps_nobody_waiting() {
    const CLIENTS: usize = 4;
    const BEFORE: usize = 300;
    const DURING: usize = 500;
    const PAST_THE_MARK: u64 = 80 * 1024 * 1024;
    const TRIES_MAX: usize = 3;
    let mut scene = Scene::new();
    scene.house = scene.house.set("SCRIP_LOG", "info,scrip_store=debug");
    let server = scene.serve();
    let (places, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let made: Mutex<Vec<(u64, String)>> = Mutex::default();
    let count = || made.lock().unwrap().len();
    let file = scene.path("backup");
    let before = thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = scene.client(&server);
                while !done.load(Ordering::Relaxed) {
                    let place = places.fetch_add(1, Ordering::Relaxed);
                    let id = Scene::create(&mut client, place);
                    made.lock().unwrap().push((place, id));
                }
            });
        }
        // However this ends, the clients do.
        let _stop = Stop(&done);
        assert!(eventually(|| count() >= BEFORE));
        let before = made.lock().unwrap().clone();
        // Its first line comes when it has begun to read.
        let backup = crate::operator::stuck::Stuck::start(&scene.house, &["backup", &file], 0);
        assert!(eventually(|| Path::new(&format!("{file}.draft")).exists()));
        let log = scene.house.data().join("scrip.db-wal");
        let go_on = || {
            let now = count();
            assert!(eventually(|| count() > now), "creates have stopped");
        };
        while fs::metadata(&log).unwrap().len() < PAST_THE_MARK {
            go_on();
        }
        let aim = count() + DURING;
        while count() < aim {
            go_on();
        }
        let tries = scene.house.log().matches("the log could not start over").count();
        assert!(tries <= TRIES_MAX, "{tries} times everybody waited");
        assert!(!Path::new(&file).exists());
        let (mut child, said) = backup.go_on();
        assert!(child.wait().unwrap().success(), "{}", said.join().unwrap());
        before
    });
    drop(server);

    let other = scene.elsewhere();
    let told = json_of(&other.house, &["restore", &file]);
    let there = stored(&other.house.data());
    assert_eq!(told["backup"]["rows"]["tokens"], there.len());
    assert!(before.iter().all(|(_, id)| there.contains(id)));
    other.has(&[]);
    let server = other.serve();
    let mut client = other.client(&server);
    for (place, id) in before.iter().step_by(10) {
        let token = Scene::get(&mut client, id).expect("it was acknowledged");
        assert_eq!(token["data"]["number"], card_number(*place));
        assert_eq!(&Scene::create(&mut client, *place), id, "its answer is remembered");
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_killed_server_has_left_its_last_commits_in_the_log() {
    let scene = Scene::new();
    let server = scene.serve();
    let mut client = scene.client(&server);
    let ids: Vec<_> = (0..5).map(|it| Scene::create(&mut client, it)).collect();
    drop(server);
    let log = scene.house.data().join("scrip.db-wal");
    assert!(fs::metadata(log).unwrap().len() > 0);
    let file = scene.path("backup");
    let told = json_of(&scene.house, &["backup", &file]);
    assert_eq!(told["backup"]["rows"]["tokens"], 5);
    assert!(told["backup"]["rows"].get("cvcs").is_none());
    let other = scene.elsewhere();
    succeeds(&other.house, &["restore", &file]);
    other.has(&ids);
}

#[test]
fn backups_go_where_they_harm_nothing() {
    let (scene, file, _) = Scene::with_backup(1);
    let house = &scene.house;
    let before = fs::read(&file).unwrap();
    house.refused(&["backup", &file], "is there already");
    assert_eq!(fs::read(&file).unwrap(), before);
    let database = house.data().join("scrip.db").display().to_string();
    house.refused(&["backup", &database, "--force"], "lies in the data directory");
    house.refused(&["backup", "nowhere/backup"], "cannot be found");
    assert!(!house.run(&["backup"]).status.success());
    // A link that somebody put where the draft will be is not followed.
    let aim = house.path("aim");
    fs::write(&aim, "mine").unwrap();
    std::os::unix::fs::symlink(&aim, house.path("second.draft")).unwrap();
    house.refused(&["backup", &scene.path("second")], "cannot be made");
    assert_eq!(fs::read_to_string(&aim).unwrap(), "mine");
    let told = json_of(house, &["backup", &file, "--force"]);
    assert_eq!(told["bytes"], fs::metadata(&file).unwrap().len());
    assert_ne!(fs::read(&file).unwrap(), before);
    assert!(!Path::new(&format!("{file}.draft")).exists());
    let empty = ProcessHarness::new(crate::SCRIP);
    empty.refused(&["backup", &file], "there is no data directory");
}

#[test]
fn a_vault_that_is_there_is_moved_aside_only_when_told() {
    let (scene, file, ids) = Scene::with_backup(3);
    let house = &scene.house;
    let server = scene.serve();
    let mut client = scene.client(&server);
    let later = Scene::create(&mut client, 3);
    house.refused(&["restore", &file, "--force"], "is served by process");
    drop(server);
    house.refused(&["restore", &file], "there is a vault in");
    let told = json_of(house, &["restore", &file, "--force"]);
    let aside = PathBuf::from(told["moved_aside"].as_str().unwrap());
    assert_eq!(aside.parent(), Some(house.data().as_path()));
    let now: HashSet<String> = ids.iter().cloned().collect();
    assert_eq!(stored(&house.data()), now);
    // With its log, so with its last commits.
    assert!(stored(&aside).contains(&later));
    scene.has(&ids);
    // A log without its database would be replayed into another one.
    fs::remove_file(house.data().join("scrip.db")).unwrap();
    fs::write(house.data().join("scrip.db-wal"), "left behind").unwrap();
    house.refused(&["restore", &file], "there is a vault in");
}

#[test]
fn only_the_key_that_sealed_it_opens_a_backup() {
    let (scene, file, ids) = Scene::with_backup(2);
    let verified = json_of(&scene.house, &["backup", "verify", &file]);
    assert_eq!((&verified["whole"], &verified["key_opens"]), (&true.into(), &true.into()));
    assert_eq!(verified["backup"]["rows"]["tokens"], 2);
    let other = ProcessHarness::new(crate::SCRIP);
    other.refused(&["restore", &file], "--without-key");
    other.refused(&["backup", "verify", &file], "--without-key");
    let other = other.set("SCRIP_ROOT_KEY", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=");
    other.refused(&["restore", &file], "did not wrap");
    other.refused(&["backup", "verify", &file], "did not wrap");
    assert!(names(&other.data()).iter().all(|it| it == "scrip.lock"));
    succeeds(&other, &["backup", "verify", &file, "--without-key"]);
    assert!(names(&other.data()).iter().all(|it| it == "scrip.lock"));
    succeeds(&other, &["restore", &file, "--without-key"]);
    assert_eq!(stored(&other.data()).len(), ids.len());
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_damaged_file_is_refused_before_anything_is_touched() {
    let (scene, file, _) = Scene::with_backup(2);
    let whole = fs::read(&file).unwrap();
    let other = scene.elsewhere();
    let bad = scene.path("bad");
    let check = |bytes: &[u8], expected: &str| {
        fs::write(&bad, bytes).unwrap();
        other.house.refused(&["restore", &bad], expected);
        other.house.refused(&["backup", "verify", &bad], expected);
        assert_eq!(names(&other.house.data()), ["root.key"]);
    };
    for part in [0, 1, 2, 5] {
        check(&whole[..whole.len() * part / 6], "no backup, or it was cut short");
    }
    check(&whole[..whole.len() - 1], "no backup, or it was cut short");
    check(&[&whole[..], b"\n"].concat(), "no backup, or it was cut short");
    for at in [0, 100, whole.len() / 2, whole.len() - 200, whole.len() - 1] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        check(&flipped, "is damaged");
    }
    other.house.refused(&["restore", "nowhere"], "cannot be read");
    other.house.refused(&["restore", "."], "is no file");
}

/// Files with a checksum that is right: somebody wrote them so.
#[test]
fn a_backup_that_cannot_be_served_is_refused() {
    let (scene, file, _) = Scene::with_backup(2);
    let whole = fs::read(&file).unwrap();
    let other = scene.elsewhere();
    let bad = scene.path("bad");
    let check = |alter: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let mut bytes = whole[..whole.len() - 32].to_vec();
        alter(&mut bytes);
        let mut sum = Checksum::new();
        sum.add(&bytes);
        bytes.extend(sum.finish());
        fs::write(&bad, bytes).unwrap();
        other.house.refused(&["backup", "verify", &bad], expected);
        other.house.refused(&["restore", &bad], expected);
        assert!(!other.house.data().join("scrip.db").exists());
        assert!(!other.house.data().join("restoring.db").exists());
    };
    // The version of the schema stands there in every SQLite file.
    check(&|it| it[60..64].copy_from_slice(&99_u32.to_be_bytes()), "newer version");
    check(&|it| it[68..72].copy_from_slice(&7_u32.to_be_bytes()), "not one of ours");
    check(&|it| it[3 * 4096..3 * 4096 + 64].fill(0x55), "cannot be used");
    check(
        &|it| {
            let at = it.windows(10).rposition(|it| it == b"\"program\":").unwrap();
            it[at] = b'!';
        },
        "does not understand",
    );
    // The control: the same with nothing altered.
    fs::write(&bad, &whole).unwrap();
    succeeds(&other.house, &["restore", &bad]);
}
