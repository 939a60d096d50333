//! The stored form of the audit keys: the bytes that the vault key wraps.

use crate::{KeySourceError, OpenError, Secret};

/// How far the change to a new audit key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditKeyPhase {
    /// Nodes load the new key; the previous one signs.
    Added,
    /// The new key signs; heads of both keys are accepted.
    Active,
    /// Only the new key is accepted for heads of chains.
    #[default]
    Closed,
}

impl AuditKeyPhase {
    fn to_byte(self) -> u8 {
        match self {
            Self::Added => 0,
            Self::Active => 1,
            Self::Closed => 2,
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Added, Self::Active, Self::Closed].into_iter().find(|it| it.to_byte() == byte)
    }
}

/// What a vault remembers with its audit keys. The vault key authenticates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyHistory {
    /// `None` before the first rotation.
    pub vault_key_created_ms: Option<i64>,
    /// When the vault key was last rotated because of a compromise.
    pub compromised_ms: Option<i64>,
    pub phase: AuditKeyPhase,
    pub phase_since_ms: i64,
}

impl KeyHistory {
    /// The time of the next vault key: later than the one before, also if the clock of this node is
    /// behind the one of another node.
    pub(super) fn next_key_time(&self, now_ms: i64) -> i64 {
        self.vault_key_created_ms.map_or(now_ms, |it| now_ms.max(it.saturating_add(1)))
    }
}

/// The id of an unlock method.
pub(super) type MethodId = [u8; 16];

/// The keys, oldest first, and the history.
pub(super) struct AuditPayload {
    pub(super) keys: Vec<Secret>,
    pub(super) history: KeyHistory,
    /// Unlock methods that were removed since the vault key was created. Their rows have valid MACs,
    /// so without this list a row of a copy could be put back.
    pub(super) removed: Vec<MethodId>,
}

const KEY_BYTES: usize = 32;
const FORMAT: u8 = 1;
/// The format, the phase, the number of removed methods and three times.
const HEADER_BYTES: usize = 3 + 3 * 8;

impl AuditPayload {
    /// A vault without a rotation has the bytes of one key and nothing else.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, KeySourceError> {
        if bytes.len() == KEY_BYTES {
            let keys = vec![Secret::new(bytes.to_vec())];
            return Ok(Self { keys, history: KeyHistory::default(), removed: Vec::new() });
        }
        Self::parse_keys(bytes).ok_or(KeySourceError::Foreign(OpenError::Malformed))
    }

    fn parse_keys(bytes: &[u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let [FORMAT, phase, removed_count, times @ ..] = header else { return None };
        let (times, _) = times.as_chunks::<8>();
        let [phase_since, compromised, created] = times else { return None };
        let optional = |it: &[u8; 8]| Some(i64::from_be_bytes(*it)).filter(|it| *it != 0);
        let history = KeyHistory {
            vault_key_created_ms: optional(created),
            compromised_ms: optional(compromised),
            phase: AuditKeyPhase::from_byte(*phase)?,
            phase_since_ms: i64::from_be_bytes(*phase_since),
        };
        let removed_bytes = usize::from(*removed_count).checked_mul(size_of::<MethodId>())?;
        let (removed, keys) = rest.split_at_checked(removed_bytes)?;
        let (keys, rest) = keys.as_chunks::<KEY_BYTES>();
        if keys.is_empty() || !rest.is_empty() {
            return None;
        }
        let keys = keys.iter().map(|it| Secret::new(it.to_vec())).collect();
        Some(Self { keys, history, removed: removed.as_chunks().0.to_vec() })
    }

    pub(super) fn to_secret(&self) -> Secret {
        let KeyHistory { vault_key_created_ms, compromised_ms, phase, phase_since_ms } =
            self.history;
        // `add_removed` limits the number.
        let removed_count = u8::try_from(self.removed.len()).unwrap_or(u8::MAX);
        let mut bytes = vec![FORMAT, phase.to_byte(), removed_count];
        for time in [
            phase_since_ms,
            compromised_ms.unwrap_or_default(),
            vault_key_created_ms.unwrap_or_default(),
        ] {
            bytes.extend_from_slice(&time.to_be_bytes());
        }
        for id in self.removed.iter().take(removed_count.into()) {
            bytes.extend_from_slice(id);
        }
        // Reserved at once, so that no copy of a key stays in freed memory.
        bytes.reserve_exact(self.keys.len().saturating_mul(KEY_BYTES));
        for key in &self.keys {
            bytes.extend_from_slice(key.expose());
        }
        Secret::new(bytes)
    }

    /// Remembers a removed method. Returns whether there is space for it.
    pub(super) fn add_removed(&mut self, id: MethodId) -> bool {
        let has_space = self.removed.len() < usize::from(u8::MAX);
        if has_space {
            self.removed.push(id);
        }
        has_space
    }

    #[expect(clippy::expect_used, reason = "parse() rejects an empty list")]
    pub(super) fn newest_and_older(&self) -> (&Secret, &[Secret]) {
        self.keys.split_last().expect("there is an audit key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_survives_a_round_trip_and_other_bytes_are_rejected() {
        let keys = vec![Secret::new(vec![1; 32]), Secret::new(vec![2; 32])];
        let history = KeyHistory {
            vault_key_created_ms: Some(1),
            compromised_ms: Some(2),
            phase: AuditKeyPhase::Active,
            phase_since_ms: 3,
        };
        let removed = vec![[7; 16], [8; 16]];
        let bytes = AuditPayload { keys, history, removed: removed.clone() }.to_secret();
        let parsed = AuditPayload::parse(bytes.expose()).unwrap();
        assert_eq!((parsed.history, &parsed.removed), (history, &removed));
        let (newest, older) = parsed.newest_and_older();
        assert_eq!((newest.expose(), older.len()), ([2; 32].as_slice(), 1));
        for length in (0..bytes.expose().len()).filter(|it| *it != 32 && *it != 91) {
            assert!(AuditPayload::parse(&bytes.expose()[..length]).is_err(), "{length}");
        }
        let mut other_format = bytes.expose().to_vec();
        other_format[0] = 9;
        assert!(AuditPayload::parse(&other_format).is_err());
    }
}
