//! `kill -9` of a backup or a restore leaves a complete result or none. Negative controls that
//! write in place fail the same checks.

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

/// Returns whether the file is absent or a complete backup.
fn is_whole_or_absent(process: &ProcessHarness, file: &str) -> bool {
    !Path::new(file).exists() || process.run(&["backup", "verify", file]).status.success()
}

/// Returns whether the database is absent or contains all tokens.
fn is_restored_or_absent(data: &Path) -> bool {
    let file = data.join("scrip.db");
    if !file.exists() {
        return true;
    }
    let read_database = || -> rusqlite::Result<(String, i64)> {
        let database = Connection::open(&file)?;
        let integrity = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let count = database.query_row("SELECT count(*) FROM tokens", [], |row| row.get(0))?;
        Ok((integrity, count))
    };
    read_database()
        .is_ok_and(|(integrity, count)| integrity == "ok" && u64::try_from(count) == Ok(TOKENS))
}

/// Simulates a program that writes in place and is killed half way.
fn write_half_in_place(path: &Path, bytes: &[u8]) {
    let file = fs::File::create(path).unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(file).spawn().unwrap();
    let first_half = bytes.get(..bytes.len() / 2).unwrap();
    child.stdin.as_mut().unwrap().write_all(first_half).unwrap();
    let length = u64::try_from(first_half.len()).unwrap();
    assert!(becomes_true(|| fs::metadata(path).unwrap().len() == length));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_backup_leaves_no_partial_file() {
    let (harness, complete_backup, _) = BackupHarness::create_with_backup(TOKENS);
    let (process, file) = (&harness.process, harness.path("killed"));
    let temporary_file = format!("{file}.tmp");
    let server = harness.serve();
    // Kill the backup while it reads. Then kill a second backup that finds the temporary file of
    // the first.
    for _ in 0..2 {
        let backup = StalledCommand::start(process, &["backup", &file], 0);
        backup.kill_when(|| Path::new(&temporary_file).exists());
        assert!(Path::new(&temporary_file).exists() && !Path::new(&file).exists());
    }
    // Stall the backup after the copy and before the checksum: one more line fits.
    let backup = StalledCommand::start(process, &["backup", &file], 60);
    let is_copied = |it| fs::metadata(it).is_ok_and(|it| it.len() > 4096 * 20);
    backup.kill_when(|| is_copied(&temporary_file) || is_copied(&file));
    assert!(is_whole_or_absent(process, &file));
    let length = measure_uninterrupted(|| process.command(&["backup", &file, "--force"]));
    let mut file_count = 0;
    for _ in 0..ROUNDS {
        drop(fs::remove_file(&file));
        run_and_kill_after(
            process.command(&["backup", &file, "--json"]),
            random_duration(0..u64::try_from(length.as_millis()).unwrap().max(1)),
        );
        assert!(is_whole_or_absent(process, &file));
        file_count += u32::from(Path::new(&file).exists());
    }
    // The server still works, and the next backup is complete.
    let mut client = harness.client(&server);
    BackupHarness::create_token(&mut client, TOKENS);
    drop(fs::remove_file(&file));
    expect_success(process, &["backup", &file]);
    let is_clean = is_whole_or_absent(process, &file) && !Path::new(&temporary_file).exists();
    assert!(is_clean, "{file_count}");

    let control = process.path("control");
    write_half_in_place(&control, &fs::read(complete_backup).unwrap());
    let is_accepted = is_whole_or_absent(process, &control.display().to_string());
    assert!(!is_accepted, "the check accepts a partial file");
}

#[test]
fn killed_restore_leaves_no_partial_vault() {
    let (harness, file, ids) = BackupHarness::create_with_backup(TOKENS);
    let second_machine = harness.second_machine();
    let (process, data) = (&second_machine.process, second_machine.process.data());
    let temporary_file = data.join("restoring.db");
    // The two lines of the checksum fit (the file is longer than one read), the first line of the
    // restore does not.
    let restore = StalledCommand::start(process, &["restore", &file], 75);
    restore.kill_when(|| fs::metadata(&temporary_file).is_ok_and(|it| it.len() > 4096 * 20));
    assert!(temporary_file.exists() && !data.join("scrip.db").exists());
    // A journal of the killed restore would be rolled back into the database.
    fs::write(data.join("restoring.db-journal"), "left behind").unwrap();
    let length = measure_uninterrupted(|| process.command(&["restore", &file, "--force"]));
    assert!(!data.join("restoring.db-journal").exists());
    second_machine.expect_tokens(&ids);
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
    // After a restore over a vault, one of the two vaults is complete, in place or in the aside
    // folder.
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
        let aside_folders: Vec<_> = entries.filter(|it| it.is_dir()).collect();
        assert!(data.join("scrip.db").exists() || !aside_folders.is_empty());
        assert!(aside_folders.iter().all(|it| is_restored_or_absent(it)));
        for folder in aside_folders {
            fs::remove_dir_all(folder).unwrap();
        }
        if !data.join("scrip.db").exists() {
            expect_success(process, &["restore", &file, "--force"]);
        }
    }
    assert_eq!(stored_token_ids(&data).len(), ids.len());
    second_machine.expect_tokens(&ids);

    let control = ProcessHarness::new(crate::SCRIP);
    fs::create_dir(control.data()).unwrap();
    write_half_in_place(
        &control.data().join("scrip.db"),
        &fs::read(data.join("scrip.db")).unwrap(),
    );
    assert!(!is_restored_or_absent(&control.data()), "the check accepts a partial database");
}

/// Measures the duration of the command without a kill: the range of the random kill times.
#[expect(clippy::disallowed_methods, reason = "the duration only bounds random kill times")]
fn measure_uninterrupted(command: impl FnOnce() -> Command) -> Duration {
    let start_time = Instant::now();
    let output = command().output().expect("run the command");
    assert!(output.status.success(), "{output:?}");
    start_time.elapsed()
}

fn run_and_kill_after(mut command: Command, delay: Duration) {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child: Child = child.expect("run the command");
    sleep(delay);
    // The process may have ended before the kill.
    drop(child.kill());
    child.wait().expect("wait for the process to end");
}
