//! Positions of the audit sink: the last written record of each chain.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use scrip_core::{audit::LogKind, types::id::TenantId};
use scrip_seal::Mac;

use crate::files::atomic_file;

/// The chain of one tenant in one log.
pub(super) type ChainKey = (LogKind, TenantId);

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SinkPositions(BTreeMap<ChainKey, SinkPosition>);

/// The last record of a chain that was written to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SinkPosition {
    pub(super) sequence: i64,
    pub(super) link: Mac,
}

impl SinkPositions {
    /// Returns no positions if the file does not exist.
    pub(super) fn read(data_dir: &Path) -> anyhow::Result<Self> {
        let path = position_file(data_dir);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        let positions = text.lines().map(parse_line).collect::<Option<_>>().map(Self);
        positions.with_context(|| format!("{} is damaged", path.display()))
    }

    /// Replaces the file atomically, so that it is never incomplete.
    pub(super) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        let path = position_file(data_dir);
        let temporary = path.with_extension("sink-position.tmp");
        let result = atomic_file::replace(&path, &temporary, |file| {
            for ((log, tenant), SinkPosition { sequence, link }) in &self.0 {
                writeln!(file, "{} {tenant} {sequence} {}", log.as_str(), link.to_hex())?;
            }
            Ok(())
        });
        result.with_context(|| format!("{} cannot be written", path.display()))
    }

    pub(super) fn chain(&self, key: ChainKey) -> Option<SinkPosition> {
        self.0.get(&key).copied()
    }

    pub(super) fn set(&mut self, chain: ChainKey, position: SinkPosition) {
        self.0.insert(chain, position);
    }
}

/// Path of the file with the positions.
pub(super) fn position_file(data_dir: &Path) -> PathBuf {
    data_dir.join("audit.sink-position")
}

fn parse_line(line: &str) -> Option<(ChainKey, SinkPosition)> {
    let mut words = line.split(' ');
    let (log, tenant, sequence) = (words.next()?, words.next()?, words.next()?);
    let link = Mac::from_hex(words.next()?)?;
    let is_complete = words.next().is_none();
    let key = (LogKind::parse(log)?, TenantId::parse(tenant)?);
    is_complete.then_some((key, SinkPosition { sequence: sequence.parse().ok()?, link }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_positions_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(SinkPositions::read(folder.path()).unwrap(), SinkPositions::default());
        let position = |sequence| SinkPosition { sequence, link: Mac([0xa7; 32]) };
        let mut positions = SinkPositions::default();
        positions.set((LogKind::Audit, TenantId(uuid::Uuid::from_u128(1))), position(7));
        positions.set((LogKind::Read, TenantId(uuid::Uuid::from_u128(1))), position(9));
        positions.write(folder.path()).unwrap();
        assert_eq!(SinkPositions::read(folder.path()).unwrap(), positions);
        fs::write(position_file(folder.path()), "audit 7").unwrap();
        assert!(SinkPositions::read(folder.path()).is_err());
    }
}
