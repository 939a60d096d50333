//! Reads the policy from a file of `scrip backup` or `scrip export`.

use std::{
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use anyhow::{Context, bail};
use scrip_core::policy::DirectoryRecords;
use scrip_store::transfer::read_policy;

use crate::commands::{
    progress::{Progress, ProgressUnit},
    transfer::backup::{
        READING, examine_database,
        file::{BackupFile, open_regular_file},
    },
};

/// The start of every SQLite database, and therefore of every backup.
const DATABASE_START: &[u8] = b"SQLite format 3\0";

/// Reads all policies of the file. Their MACs are not checked yet.
pub(super) fn read_backup(path: &Path) -> anyhow::Result<DirectoryRecords> {
    let name = path.display();
    let unreadable = || format!("{name} cannot be read");
    let mut file = open_regular_file(path)?;
    let mut start = Vec::new();
    let start_length = u64::try_from(DATABASE_START.len())?;
    file.by_ref().take(start_length).read_to_end(&mut start).with_context(unreadable)?;
    if start != DATABASE_START {
        file.seek(SeekFrom::Start(0)).with_context(unreadable)?;
        let records = read_policy(&file);
        return records.with_context(|| format!("{name} is not a usable backup or export"));
    }
    BackupFile::open(path)?.check(&mut Progress::of_report("checksum", ProgressUnit::Bytes))?;
    let examined = examine_database(path, Progress::of_report(READING, ProgressUnit::Bytes))?;
    if !examined.is_current {
        bail!(
            "{name} has the schema of an older version. Restore it into an empty directory with \
             this version, and back that directory up"
        );
    }
    Ok(examined.directory)
}
