//! File format of a backup: the database, a manifest, and a checksum over both.
//!
//! The database comes first, so that SQLite tools can open the file. The manifest follows as JSON,
//! then a tail of 64 bytes: magic bytes, both lengths, and the checksum of everything before. The
//! checksum covers every byte, and a truncated file has no tail.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use scrip_core::Timestamp;
use scrip_seal::Checksum;
use serde::{Deserialize, Serialize};

use crate::commands::progress::Progress;

/// The number is incremented when older programs cannot read the format.
const MAGIC: [u8; 16] = *b"\nscrip backup 1\n";
const TAIL_BYTES: u64 = 64;
const CHECKSUM_BYTES: u64 = 32;
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;
const CHUNK_BYTES: usize = 256 * 1024;

/// Description of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// Version of the program that created it.
    pub(crate) program: String,
    pub(crate) engine: String,
    pub(crate) schema: u32,
    /// The backup contains everything that was acknowledged before.
    pub(crate) created_at_unix_ms: i64,
    /// Number of rows per table.
    pub(crate) rows: BTreeMap<String, u64>,
}

impl Manifest {
    pub(crate) fn created_at(&self) -> Timestamp {
        Timestamp { unix_ms: self.created_at_unix_ms }
    }

    pub(crate) fn count(&self, table: &str) -> u64 {
        self.rows.get(table).copied().unwrap_or_default()
    }
}

/// Turns a database file into a backup and syncs it. Returns its length.
/// Errors: the file cannot be read or written.
pub(crate) fn finish_backup(
    file: &mut File,
    manifest: &Manifest,
    progress: &mut Progress,
) -> anyhow::Result<u64> {
    let database_bytes = file.metadata()?.len();
    let manifest = serde_json::to_vec(manifest)?;
    let mut checksum = Checksum::new();
    file.seek(SeekFrom::Start(0))?;
    copy_with_checksum(file, database_bytes, &mut checksum, &mut io::sink(), &mut |copied| {
        progress.update(copied, database_bytes)
    })?;
    let lengths = [database_bytes, u64::try_from(manifest.len())?].map(u64::to_be_bytes);
    let mut tail = manifest;
    tail.extend_from_slice(&MAGIC);
    tail.extend(lengths.iter().flatten());
    checksum.add(&tail);
    tail.extend_from_slice(&checksum.finish());
    file.write_all(&tail)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// Opens a file that a command reads several times. Opening a pipe would wait for its writer.
/// Errors: the file cannot be read, or is a directory, a pipe or a device.
pub(crate) fn open_regular_file(path: &Path) -> anyhow::Result<File> {
    let name = path.display();
    let unreadable = || format!("{name} cannot be read");
    ensure!(fs::metadata(path).with_context(unreadable)?.is_file(), "{name} is not a regular file");
    File::open(path).with_context(unreadable)
}

/// A file with the tail of a backup. Its contents are untrusted until [`BackupFile::check`]
/// succeeds.
#[derive(Debug)]
pub(crate) struct BackupFile {
    path: PathBuf,
    file: File,
    database_bytes: u64,
    /// Length of the part before the checksum.
    checksummed_bytes: u64,
}

impl BackupFile {
    /// Opens a file and reads its tail.
    /// Errors: the file cannot be read, or has no tail of a backup.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let mut file = open_regular_file(path)?;
        let metadata = file.metadata()?;
        let truncated = || format!("{name} is not a backup, or is truncated; nothing was changed");
        let checksummed_bytes =
            metadata.len().checked_sub(CHECKSUM_BYTES).with_context(truncated)?;
        let tail_start = metadata.len().checked_sub(TAIL_BYTES).with_context(truncated)?;
        file.seek(SeekFrom::Start(tail_start))?;
        let mut magic = [0; MAGIC.len()];
        let mut lengths = [[0; 8]; 2];
        file.read_exact(&mut magic)?;
        for length in &mut lengths {
            file.read_exact(length)?;
        }
        let [database, manifest] = lengths.map(u64::from_be_bytes);
        let lengths_match = database.checked_add(manifest) == Some(tail_start);
        if magic != MAGIC || !lengths_match || manifest > MANIFEST_BYTES_MAX {
            bail!(truncated());
        }
        Ok(Self { path: path.to_owned(), file, database_bytes: database, checksummed_bytes })
    }

    /// Reads the whole file and returns its manifest.
    /// Errors: the file cannot be read, or its checksum does not match.
    pub(crate) fn check(&mut self, progress: &mut Progress) -> anyhow::Result<Manifest> {
        self.extract(&mut io::sink(), progress)
    }

    /// As [`BackupFile::check`], and writes the database to `target`. Discard the output if this
    /// fails.
    /// Errors: as [`BackupFile::check`], or the output cannot be written.
    pub(crate) fn extract(
        &mut self,
        target: &mut impl Write,
        progress: &mut Progress,
    ) -> anyhow::Result<Manifest> {
        let (name, total) = (self.path.display(), self.checksummed_bytes);
        let mut checksum = Checksum::new();
        self.file.seek(SeekFrom::Start(0))?;
        let mut report = |copied| progress.update(copied, total);
        copy_with_checksum(
            &mut self.file,
            self.database_bytes,
            &mut checksum,
            target,
            &mut report,
        )?;
        let mut manifest_and_tail = Vec::new();
        let remaining_bytes = total.saturating_sub(self.database_bytes);
        Read::by_ref(&mut self.file).take(remaining_bytes).read_to_end(&mut manifest_and_tail)?;
        checksum.add(&manifest_and_tail);
        let mut stored_checksum = [0; 32];
        self.file.read_exact(&mut stored_checksum).context("the file became shorter")?;
        if checksum.finish() != stored_checksum {
            bail!("{name} is damaged: its checksum does not match; nothing was changed");
        }
        let tail = usize::try_from(TAIL_BYTES.saturating_sub(CHECKSUM_BYTES))?;
        let manifest =
            manifest_and_tail.len().checked_sub(tail).and_then(|it| manifest_and_tail.get(..it));
        serde_json::from_slice(manifest.unwrap_or_default())
            .with_context(|| format!("{name} has a manifest that this program does not understand"))
    }
}

/// Copies bytes and updates the checksum.
fn copy_with_checksum(
    source: &mut File,
    count: u64,
    checksum: &mut Checksum,
    target: &mut impl Write,
    report: &mut impl FnMut(u64),
) -> anyhow::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut copied = 0;
    while copied < count {
        let maximum = usize::try_from(count.saturating_sub(copied)).unwrap_or(CHUNK_BYTES);
        let buffer = chunk.get_mut(..maximum.min(CHUNK_BYTES)).unwrap_or_default();
        let bytes = source.read(buffer)?;
        let bytes =
            buffer.get(..bytes).filter(|it| !it.is_empty()).context("the file became shorter")?;
        checksum.add(bytes);
        target.write_all(bytes)?;
        copied = copied.saturating_add(u64::try_from(bytes.len())?);
        report(copied);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::progress::{ProgressUnit, WithoutTerminal};

    fn hidden_progress() -> Progress {
        Progress::new("test", ProgressUnit::Bytes, WithoutTerminal::Hidden)
    }

    /// Creates a backup of a small fake database.
    fn create_backup_file(folder: &Path) -> (PathBuf, Manifest) {
        let manifest = Manifest {
            program: "1".to_owned(),
            engine: "embedded".to_owned(),
            schema: 3,
            created_at_unix_ms: 7,
            rows: [("tokens".to_owned(), 2)].into(),
        };
        let path = folder.join("backup");
        fs::write(&path, b"database ".repeat(30)).unwrap();
        let mut file = File::options().read(true).write(true).open(&path).unwrap();
        let length = finish_backup(&mut file, &manifest, &mut hidden_progress()).unwrap();
        assert_eq!(length, fs::metadata(&path).unwrap().len());
        (path, manifest)
    }

    fn check(path: &Path) -> anyhow::Result<Manifest> {
        BackupFile::open(path)?.check(&mut hidden_progress())
    }

    #[test]
    fn extracted_database_and_manifest_match_the_backup() {
        let folder = tempfile::tempdir().unwrap();
        let (path, manifest) = create_backup_file(folder.path());
        assert_eq!(check(&path).unwrap(), manifest);
        let mut database = Vec::new();
        let mut backup = BackupFile::open(&path).unwrap();
        // A check can be repeated.
        for _ in 0..2 {
            database.clear();
            assert_eq!(backup.extract(&mut database, &mut hidden_progress()).unwrap(), manifest);
        }
        assert_eq!(database, b"database ".repeat(30));
    }

    #[test]
    fn any_changed_or_missing_byte_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = create_backup_file(folder.path());
        let complete = fs::read(&path).unwrap();
        // A new file each time: some file systems sync a file that is truncated and rewritten.
        let replace = |bytes: &[u8]| {
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
        };
        for position in 0..complete.len() {
            let mut flipped = complete.clone();
            flipped[position] ^= 1 << (position % 8);
            replace(&flipped);
            assert!(check(&path).is_err(), "byte {position}");
            replace(&complete[..position]);
            assert!(check(&path).is_err(), "cut at {position}");
        }
        replace(&[&complete[..], b"x"].concat());
        assert!(check(&path).is_err());
        replace(&complete);
        assert!(check(&path).is_ok());
    }
}
