//! How far each chain was told.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context;
use scrip_core::{audit::Log, id::TenantId};
use scrip_seal::Mac;

use super::path;
use crate::files::atomic_file;

/// A tenant's records in one of the logs.
pub(super) type Chain = (Log, TenantId);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Positions(BTreeMap<Chain, Told>);

/// The last record of a chain that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) n: i64,
    pub(super) link: Mac,
}

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
        let written = atomic_file::replace(&path, &draft, |file| {
            for ((log, tenant), Told { n, link }) in &self.0 {
                writeln!(file, "{} {tenant} {n} {}", log.as_str(), link.to_hex())?;
            }
            Ok(())
        });
        written.with_context(|| format!("{} cannot be written", path.display()))
    }

    pub(super) fn of(&self, of: Chain) -> Option<Told> {
        self.0.get(&of).copied()
    }

    pub(super) fn set(&mut self, of: Chain, told: Told) {
        self.0.insert(of, told);
    }
}

fn parse(line: &str) -> Option<(Chain, Told)> {
    let mut words = line.split(' ');
    let (log, tenant, n) = (words.next()?, words.next()?, words.next()?);
    let link = Mac::from_hex(words.next()?)?;
    let whole = words.next().is_none();
    let of = (Log::parse(log)?, TenantId::parse(tenant)?);
    whole.then_some((of, Told { n: n.parse().ok()?, link }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Positions::read(folder.path()).unwrap(), Positions::default());
        let told = |n| Told { n, link: Mac([0xa7; 32]) };
        let mut positions = Positions::default();
        positions.set((Log::Audit, TenantId(uuid::Uuid::from_u128(1))), told(7));
        positions.set((Log::Access, TenantId(uuid::Uuid::from_u128(1))), told(9));
        positions.write(folder.path()).unwrap();
        assert_eq!(Positions::read(folder.path()).unwrap(), positions);
        fs::write(path(folder.path()), "audit 7").unwrap();
        assert!(Positions::read(folder.path()).is_err());
    }
}
