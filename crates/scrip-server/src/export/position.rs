//! How far each chain was told.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::Context;
use scrip_core::{
    audit::chain::{Head, Log},
    id::TenantId,
};

use super::path;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Positions(BTreeMap<(Log, TenantId), i64>);

impl Positions {
    /// None are there yet when the file is not.
    pub(super) fn read(data: &Path) -> anyhow::Result<Self> {
        let path = path(data);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        let parsed = text.lines().map(parse).collect::<Option<_>>().map(Self);
        parsed.with_context(|| format!("{} is not as it was written", path.display()))
    }

    /// A new file in the place of the old one: there is never half of one.
    pub(super) fn write(&self, data: &Path) -> anyhow::Result<()> {
        let path = path(data);
        let draft = path.with_extension("exported-new");
        let written = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
            for ((log, tenant), n) in &self.0 {
                writeln!(file, "{} {tenant} {n}", log.as_str())?;
            }
            file.sync_data()?;
            fs::rename(&draft, &path)?;
            File::open(data)?.sync_all()
        };
        written().with_context(|| format!("{} cannot be written", path.display()))
    }

    /// The number after which there is something to tell. A chain that ends before what was told is
    /// another one, of a database that was brought back: it is told from its beginning.
    pub(super) fn behind(&mut self, log: Log, head: &Head) -> Option<(i64, Known)> {
        match self.0.get(&(log, head.tenant)).copied() {
            None => (head.n > 0).then_some((0, Known::New)),
            Some(told) if told > head.n => {
                self.0.remove(&(log, head.tenant));
                Some((0, Known::New))
            }
            Some(told) => (told < head.n).then_some((told, Known::Told)),
        }
    }

    pub(super) fn set(&mut self, of: (Log, TenantId), n: i64) {
        self.0.insert(of, n);
    }
}

/// Whether some of a chain was told before, so that what is missing is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    New,
    Told,
}

fn parse(line: &str) -> Option<((Log, TenantId), i64)> {
    let mut words = line.split(' ');
    let (log, tenant, n) = (words.next()?, words.next()?, words.next()?);
    let whole = words.next().is_none();
    whole.then_some(((Log::parse(log)?, TenantId::parse(tenant)?), n.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Positions::read(folder.path()).unwrap(), Positions::default());
        let mut positions = Positions::default();
        positions.set((Log::Audit, TenantId(uuid::Uuid::from_u128(1))), 7);
        positions.set((Log::Access, TenantId(uuid::Uuid::from_u128(1))), 9);
        positions.write(folder.path()).unwrap();
        assert_eq!(Positions::read(folder.path()).unwrap(), positions);
        fs::write(path(folder.path()), "audit 7").unwrap();
        assert!(Positions::read(folder.path()).is_err());
    }
}
