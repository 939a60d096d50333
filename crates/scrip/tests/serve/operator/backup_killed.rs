//! `kill -9` of a backup and of a restore leaves the whole of it or nothing; and whoever writes in
//! place is found out by the same questions.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use scrip_testing::{
    process::harness::{ProcessHarness, eventually},
    random::random_duration,
};

use crate::operator::{
    backup::{Scene, stored, succeeds},
    stuck::Stuck,
};

const TOKENS: u64 = 40;
const ROUNDS: u32 = 12;

/// Whether the file is not there, or is a backup.
fn is_whole_or_absent(house: &ProcessHarness, file: &str) -> bool {
    !Path::new(file).exists() || house.run(&["backup", "verify", file]).status.success()
}

/// Whether there is no database, or one with all the tokens.
fn is_restored_or_absent(data: &Path) -> bool {
    let file = data.join("scrip.db");
    if !file.exists() {
        return true;
    }
    let asked = || -> rusqlite::Result<(String, i64)> {
        let database = Connection::open(&file)?;
        let sound = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let count = database.query_row("SELECT count(*) FROM tokens", [], |row| row.get(0))?;
        Ok((sound, count))
    };
    asked().is_ok_and(|(sound, count)| sound == "ok" && u64::try_from(count) == Ok(TOKENS))
}

/// A program that writes where others look, killed half way.
fn written_in_place(to: &Path, bytes: &[u8]) {
    let aim = fs::File::create(to).unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(aim).spawn().unwrap();
    let half = bytes.get(..bytes.len() / 2).unwrap();
    child.stdin.as_mut().unwrap().write_all(half).unwrap();
    let length = u64::try_from(half.len()).unwrap();
    assert!(eventually(|| fs::metadata(to).unwrap().len() == length));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_killed_backup_leaves_no_half() {
    let (scene, good, _) = Scene::with_backup(TOKENS);
    let (house, file) = (&scene.house, scene.path("killed"));
    let draft = format!("{file}.draft");
    let server = scene.serve();
    // While it reads, and again while there is what the last one left.
    for _ in 0..2 {
        let backup = Stuck::start(house, &["backup", &file], 0);
        backup.kill_when(|| Path::new(&draft).exists());
        assert!(Path::new(&draft).exists() && !Path::new(&file).exists());
    }
    // With the copy made, before the checksum: one more line has room.
    let backup = Stuck::start(house, &["backup", &file], 60);
    let is_copied = |it| fs::metadata(it).is_ok_and(|it| it.len() > 4096 * 20);
    backup.kill_when(|| is_copied(&draft) || is_copied(&file));
    assert!(is_whole_or_absent(house, &file));
    let length = uninterrupted(|| house.command(&["backup", &file, "--force"]));
    let mut files = 0;
    for _ in 0..ROUNDS {
        drop(fs::remove_file(&file));
        killed_after(
            house.command(&["backup", &file, "--json"]),
            random_duration(0..u64::try_from(length.as_millis()).unwrap().max(1)),
        );
        assert!(is_whole_or_absent(house, &file));
        files += u32::from(Path::new(&file).exists());
    }
    // Nobody else was harmed, and the next one is whole.
    let mut client = scene.client(&server);
    Scene::create(&mut client, TOKENS);
    drop(fs::remove_file(&file));
    succeeds(house, &["backup", &file]);
    assert!(is_whole_or_absent(house, &file) && !Path::new(&draft).exists(), "{files}");

    let control = house.path("control");
    written_in_place(&control, &fs::read(good).unwrap());
    assert!(!is_whole_or_absent(house, &control.display().to_string()), "half a file is found");
}

#[test]
fn a_killed_restore_leaves_no_half() {
    let (scene, file, ids) = Scene::with_backup(TOKENS);
    let other = scene.elsewhere();
    let (house, data) = (&other.house, other.house.data());
    let draft = data.join("restoring.db");
    // The two lines of the checksum have room (the file is longer than what is read at once), the
    // first one of restoring has not.
    let restore = Stuck::start(house, &["restore", &file], 75);
    restore.kill_when(|| fs::metadata(&draft).is_ok_and(|it| it.len() > 4096 * 20));
    assert!(draft.exists() && !data.join("scrip.db").exists());
    // What a journal of the killed one would be rolled back into.
    fs::write(data.join("restoring.db-journal"), "left behind").unwrap();
    let length = uninterrupted(|| house.command(&["restore", &file, "--force"]));
    assert!(!data.join("restoring.db-journal").exists());
    other.has(&ids);
    for _ in 0..ROUNDS {
        fs::remove_file(data.join("scrip.db")).unwrap_or_default();
        for name in ["scrip.db-wal", "scrip.db-shm", "scrip.db-journal"] {
            drop(fs::remove_file(data.join(name)));
        }
        killed_after(
            house.command(&["restore", &file, "--json"]),
            random_duration(0..u64::try_from(length.as_millis()).unwrap().max(1)),
        );
        assert!(is_restored_or_absent(&data));
    }
    // Over a vault: either of the two is there whole, here or aside.
    if !data.join("scrip.db").exists() {
        succeeds(house, &["restore", &file]);
    }
    for _ in 0..ROUNDS {
        killed_after(
            house.command(&["restore", &file, "--force", "--json"]),
            random_duration(0..u64::try_from(length.as_millis()).unwrap().max(1)),
        );
        assert!(is_restored_or_absent(&data));
        let entries = fs::read_dir(&data).unwrap().map(|it| it.unwrap().path());
        let asides: Vec<_> = entries.filter(|it| it.is_dir()).collect();
        assert!(data.join("scrip.db").exists() || !asides.is_empty());
        assert!(asides.iter().all(|it| is_restored_or_absent(it)));
        for aside in asides {
            fs::remove_dir_all(aside).unwrap();
        }
        if !data.join("scrip.db").exists() {
            succeeds(house, &["restore", &file, "--force"]);
        }
    }
    assert_eq!(stored(&data).len(), ids.len());
    other.has(&ids);

    let control = ProcessHarness::new(crate::SCRIP);
    fs::create_dir(control.data()).unwrap();
    written_in_place(&control.data().join("scrip.db"), &fs::read(data.join("scrip.db")).unwrap());
    assert!(!is_restored_or_absent(&control.data()), "half a database is found");
}

/// How long it takes when nobody ends it, which is about the range to end it in.
#[expect(clippy::disallowed_methods, reason = "a length to choose from, not one to fail by")]
fn uninterrupted(command: impl FnOnce() -> Command) -> Duration {
    let begun = Instant::now();
    let output = command().output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    begun.elapsed()
}

fn killed_after(mut command: Command, delay: Duration) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child: Child = child.expect("it runs");
    sleep(delay);
    // It may have ended by itself.
    drop(child.kill());
    child.wait().expect("it ends");
}
