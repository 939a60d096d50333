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
    process::harness::{ProcessHarness, becomes_true},
    random::random_duration,
};

use crate::operator::{
    backup::{BackupHarness, expect_success, stored_token_ids},
    stalled_command::StalledCommand,
};

const TOKENS: u64 = 40;
const ROUNDS: u32 = 12;

/// Whether the file is not there, or is a backup.
fn is_whole_or_absent(process: &ProcessHarness, file: &str) -> bool {
    !Path::new(file).exists() || process.run(&["backup", "verify", file]).status.success()
}

/// Whether there is no database, or one with all the tokens.
fn is_restored_or_absent(data: &Path) -> bool {
    let file = data.join("scrip.db");
    if !file.exists() {
        return true;
    }
    let request = || -> rusqlite::Result<(String, i64)> {
        let database = Connection::open(&file)?;
        let sound = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let count = database.query_row("SELECT count(*) FROM tokens", [], |row| row.get(0))?;
        Ok((sound, count))
    };
    request().is_ok_and(|(sound, count)| sound == "ok" && u64::try_from(count) == Ok(TOKENS))
}

/// A program that writes where others look, killed half way.
fn write_half_in_place(to: &Path, bytes: &[u8]) {
    let aim = fs::File::create(to).unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(aim).spawn().unwrap();
    let half = bytes.get(..bytes.len() / 2).unwrap();
    child.stdin.as_mut().unwrap().write_all(half).unwrap();
    let length = u64::try_from(half.len()).unwrap();
    assert!(becomes_true(|| fs::metadata(to).unwrap().len() == length));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_backup_leaves_no_partial_file() {
    let (harness, good, _) = BackupHarness::create_with_backup(TOKENS);
    let (process, file) = (&harness.process, harness.path("killed"));
    let draft = format!("{file}.draft");
    let server = harness.serve();
    // While it reads, and again while there is what the last one left.
    for _ in 0..2 {
        let backup = StalledCommand::start(process, &["backup", &file], 0);
        backup.kill_when(|| Path::new(&draft).exists());
        assert!(Path::new(&draft).exists() && !Path::new(&file).exists());
    }
    // With the copy made, before the checksum: one more line has room.
    let backup = StalledCommand::start(process, &["backup", &file], 60);
    let is_copied = |it| fs::metadata(it).is_ok_and(|it| it.len() > 4096 * 20);
    backup.kill_when(|| is_copied(&draft) || is_copied(&file));
    assert!(is_whole_or_absent(process, &file));
    let length = measure_uninterrupted(|| process.command(&["backup", &file, "--force"]));
    let mut files = 0;
    for _ in 0..ROUNDS {
        drop(fs::remove_file(&file));
        run_and_kill_after(
            process.command(&["backup", &file, "--json"]),
            random_duration(0..u64::try_from(length.as_millis()).unwrap().max(1)),
        );
        assert!(is_whole_or_absent(process, &file));
        files += u32::from(Path::new(&file).exists());
    }
    // Nobody else was harmed, and the next one is whole.
    let mut client = harness.client(&server);
    BackupHarness::create_token(&mut client, TOKENS);
    drop(fs::remove_file(&file));
    expect_success(process, &["backup", &file]);
    assert!(is_whole_or_absent(process, &file) && !Path::new(&draft).exists(), "{files}");

    let control = process.path("control");
    write_half_in_place(&control, &fs::read(good).unwrap());
    assert!(!is_whole_or_absent(process, &control.display().to_string()), "half a file is found");
}

#[test]
fn killed_restore_leaves_no_partial_vault() {
    let (harness, file, ids) = BackupHarness::create_with_backup(TOKENS);
    let other = harness.second_machine();
    let (process, data) = (&other.process, other.process.data());
    let draft = data.join("restoring.db");
    // The two lines of the checksum have room (the file is longer than what is read at once), the
    // first one of restoring has not.
    let restore = StalledCommand::start(process, &["restore", &file], 75);
    restore.kill_when(|| fs::metadata(&draft).is_ok_and(|it| it.len() > 4096 * 20));
    assert!(draft.exists() && !data.join("scrip.db").exists());
    // What a journal of the killed one would be rolled back into.
    fs::write(data.join("restoring.db-journal"), "left behind").unwrap();
    let length = measure_uninterrupted(|| process.command(&["restore", &file, "--force"]));
    assert!(!data.join("restoring.db-journal").exists());
    other.expect_tokens(&ids);
    for _ in 0..ROUNDS {
        fs::remove_file(data.join("scrip.db")).unwrap_or_default();
        for name in ["scrip.db-wal", "scrip.db-shm", "scrip.db-journal"] {
            drop(fs::remove_file(data.join(name)));
        }
        run_and_kill_after(
            process.command(&["restore", &file, "--json"]),
            random_duration(0..u64::try_from(length.as_millis()).unwrap().max(1)),
        );
        assert!(is_restored_or_absent(&data));
    }
    // Over a vault: either of the two is there whole, here or aside.
    if !data.join("scrip.db").exists() {
        expect_success(process, &["restore", &file]);
    }
    for _ in 0..ROUNDS {
        run_and_kill_after(
            process.command(&["restore", &file, "--force", "--json"]),
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
            expect_success(process, &["restore", &file, "--force"]);
        }
    }
    assert_eq!(stored_token_ids(&data).len(), ids.len());
    other.expect_tokens(&ids);

    let control = ProcessHarness::new(crate::SCRIP);
    fs::create_dir(control.data()).unwrap();
    write_half_in_place(
        &control.data().join("scrip.db"),
        &fs::read(data.join("scrip.db")).unwrap(),
    );
    assert!(!is_restored_or_absent(&control.data()), "half a database is found");
}

/// How long it takes when nobody ends it, which is about the range to end it in.
#[expect(clippy::disallowed_methods, reason = "a length to choose from, not one to fail by")]
fn measure_uninterrupted(command: impl FnOnce() -> Command) -> Duration {
    let started = Instant::now();
    let output = command().output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    started.elapsed()
}

fn run_and_kill_after(mut command: Command, delay: Duration) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child: Child = child.expect("it runs");
    sleep(delay);
    // It may have ended by itself.
    drop(child.kill());
    child.wait().expect("it ends");
}
