//! The file of a backup: the database, what it is, and a checksum over both.
//!
//! The database comes first, so that SQLite's own tools can open the file too. Behind its last page
//! stands the manifest, as JSON, and then a tail of 64 bytes: a mark, the lengths of the two, and
//! the checksum of everything before it. So every byte counts, and a file that was cut has no tail.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use scrip_core::time::Timestamp;
use scrip_seal::Checksum;
use serde::{Deserialize, Serialize};

use crate::commands::transfer::progress::Progress;

/// Its number rises when older programs could not read what follows from it.
const MAGIC: [u8; 16] = *b"\nscrip backup 1\n";
const TAIL_BYTES: u64 = 64;
const CHECKSUM_BYTES: u64 = 32;
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;
const CHUNK_BYTES: usize = 256 * 1024;

/// What a backup says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The version of the program that made it.
    pub(crate) program: String,
    pub(crate) engine: String,
    pub(crate) schema: u32,
    /// Whatever was acknowledged before is in it.
    pub(crate) created_at_unix_ms: i64,
    /// How many rows each table has.
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

/// Makes a backup of a file that is a database so far, and syncs it; how long it is then.
///
/// # Errors
/// It cannot be read or written.
pub(crate) fn finish_backup(
    file: &mut File,
    manifest: &Manifest,
    progress: &mut Progress,
) -> anyhow::Result<u64> {
    let database = file.metadata()?.len();
    let manifest = serde_json::to_vec(manifest)?;
    let mut sum = Checksum::new();
    file.seek(SeekFrom::Start(0))?;
    copy_with_checksum(file, database, &mut sum, &mut io::sink(), &mut |done| {
        progress.update(done, database)
    })?;
    let lengths = [database, u64::try_from(manifest.len())?].map(u64::to_be_bytes);
    let mut end = manifest;
    end.extend_from_slice(&MAGIC);
    end.extend(lengths.iter().flatten());
    sum.add(&end);
    end.extend_from_slice(&sum.finish());
    file.write_all(&end)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// A file that ends as a backup does. Nothing in it is believed before [`Backup::check`].
#[derive(Debug)]
pub(crate) struct BackupFile {
    path: PathBuf,
    file: File,
    database_bytes: u64,
    /// Up to the checksum.
    checksummed_bytes: u64,
}

impl BackupFile {
    /// # Errors
    /// It cannot be read, or does not end as a backup does.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let mut file = File::open(path).with_context(|| format!("{name} cannot be read"))?;
        let found = file.metadata()?;
        ensure!(found.is_file(), "{name} is no file");
        let cut = || format!("{name} is no backup, or it was cut short; nothing was changed");
        let summed = found.len().checked_sub(CHECKSUM_BYTES).with_context(cut)?;
        let tail = found.len().checked_sub(TAIL_BYTES).with_context(cut)?;
        file.seek(SeekFrom::Start(tail))?;
        let mut mark = [0; MAGIC.len()];
        let mut lengths = [[0; 8]; 2];
        file.read_exact(&mut mark)?;
        for length in &mut lengths {
            file.read_exact(length)?;
        }
        let [database, manifest] = lengths.map(u64::from_be_bytes);
        let whole = database.checked_add(manifest) == Some(tail);
        if mark != MAGIC || !whole || manifest > MANIFEST_BYTES_MAX {
            bail!(cut());
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            database_bytes: database,
            checksummed_bytes: summed,
        })
    }

    /// Reads all of it; what it says of itself.
    ///
    /// # Errors
    /// It cannot be read, or it is not as it was written.
    pub(crate) fn check(&mut self, progress: &mut Progress) -> anyhow::Result<Manifest> {
        self.extract(&mut io::sink(), progress)
    }

    /// The same, and writes out its database on the way, which is worth nothing if this fails.
    ///
    /// # Errors
    /// As [`Backup::check`], or it cannot be written.
    pub(crate) fn extract(
        &mut self,
        to: &mut impl Write,
        progress: &mut Progress,
    ) -> anyhow::Result<Manifest> {
        let (name, all) = (self.path.display(), self.checksummed_bytes);
        let mut sum = Checksum::new();
        self.file.seek(SeekFrom::Start(0))?;
        let mut tell = |done| progress.update(done, all);
        copy_with_checksum(&mut self.file, self.database_bytes, &mut sum, to, &mut tell)?;
        let mut rest = Vec::new();
        let rest_bytes = all.saturating_sub(self.database_bytes);
        Read::by_ref(&mut self.file).take(rest_bytes).read_to_end(&mut rest)?;
        sum.add(&rest);
        let mut written = [0; 32];
        self.file.read_exact(&mut written).context("it became shorter")?;
        if sum.finish() != written {
            bail!("{name} is damaged: its checksum is another; nothing was changed");
        }
        let tail = usize::try_from(TAIL_BYTES.saturating_sub(CHECKSUM_BYTES))?;
        let manifest = rest.len().checked_sub(tail).and_then(|it| rest.get(..it));
        serde_json::from_slice(manifest.unwrap_or_default())
            .with_context(|| format!("{name} says of itself what this program does not understand"))
    }
}

/// So many bytes from here to there, through the checksum.
fn copy_with_checksum(
    from: &mut File,
    count: u64,
    sum: &mut Checksum,
    to: &mut impl Write,
    report: &mut impl FnMut(u64),
) -> anyhow::Result<()> {
    let mut piece = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while done < count {
        let maximum = usize::try_from(count.saturating_sub(done)).unwrap_or(CHUNK_BYTES);
        let room = piece.get_mut(..maximum.min(CHUNK_BYTES)).unwrap_or_default();
        let read = from.read(room)?;
        let read = room.get(..read).filter(|it| !it.is_empty()).context("it became shorter")?;
        sum.add(read);
        to.write_all(read)?;
        done = done.saturating_add(u64::try_from(read.len())?);
        report(done);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::commands::transfer::progress::ProgressUnit;

    fn hidden_progress() -> Progress {
        Progress::new("test", ProgressUnit::Bytes, true)
    }

    /// A file with a small stand-in for a database.
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
        // As often as one likes.
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
        let whole = fs::read(&path).unwrap();
        // A new file each time: one that is cut and written again is synced by some file systems.
        let put = |bytes: &[u8]| {
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
        };
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            put(&flipped);
            assert!(check(&path).is_err(), "byte {at}");
            put(&whole[..at]);
            assert!(check(&path).is_err(), "cut at {at}");
        }
        put(&[&whole[..], b"x"].concat());
        assert!(check(&path).is_err());
        put(&whole);
        assert!(check(&path).is_ok());
    }
}
