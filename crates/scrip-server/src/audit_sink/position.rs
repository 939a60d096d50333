//! How far each chain was told.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::Path,
};

use anyhow::Context;
use scrip_core::{audit::LogKind, id::TenantId};
use scrip_seal::Mac;

use super::position_file;
use crate::files::atomic_file;

/// A tenant's records in one of the logs.
pub(super) type ChainKey = (LogKind, TenantId);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SinkPositions(BTreeMap<ChainKey, SinkPosition>);

/// The last record of a chain that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SinkPosition {
    pub(super) n: i64,
    pub(super) link: Mac,
}

impl SinkPositions {
    /// None are there yet when the file is not.
    pub(super) fn read(data_dir: &Path) -> anyhow::Result<Self> {
        let path = position_file(data_dir);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        let parsed = text.lines().map(parse_line).collect::<Option<_>>().map(Self);
        parsed.with_context(|| format!("{} is not as it was written", path.display()))
    }

    /// A new file in the place of the old one: there is never half of one.
    pub(super) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = position_file(data_dir);
        let draft = path.with_extension("exported-new");
        let written = atomic_file::replace(&path, &draft, |file| {
            for ((log, tenant), SinkPosition { n, link }) in &self.0 {
                writeln!(file, "{} {tenant} {n} {}", log.as_str(), link.to_hex())?;
            }
            Ok(())
        });
        written.with_context(|| format!("{} cannot be written", path.display()))
    }

    pub(super) fn chain(&self, of: ChainKey) -> Option<SinkPosition> {
        self.0.get(&of).copied()
    }

    pub(super) fn set(&mut self, chain: ChainKey, position: SinkPosition) {
        self.0.insert(chain, position);
    }
}

fn parse_line(line: &str) -> Option<(ChainKey, SinkPosition)> {
    let mut words = line.split(' ');
    let (log, tenant, n) = (words.next()?, words.next()?, words.next()?);
    let link = Mac::from_hex(words.next()?)?;
    let whole = words.next().is_none();
    let of = (LogKind::parse(log)?, TenantId::parse(tenant)?);
    whole.then_some((of, SinkPosition { n: n.parse().ok()?, link }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_positions_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SinkPositions::read(folder.path()).unwrap(), SinkPositions::default());
        let told = |n| SinkPosition { n, link: Mac([0xa7; 32]) };
        let mut positions = SinkPositions::default();
        positions.set((LogKind::Audit, TenantId(uuid::Uuid::from_u128(1))), told(7));
        positions.set((LogKind::Read, TenantId(uuid::Uuid::from_u128(1))), told(9));
        positions.write(folder.path()).unwrap();
        assert_eq!(SinkPositions::read(folder.path()).unwrap(), positions);
        fs::write(position_file(folder.path()), "audit 7").unwrap();
        assert!(SinkPositions::read(folder.path()).is_err());
    }
}
