//! The versions of a tenant's sealing key at the time of a write.

use scrip_core::types::StoreError;
use scrip_seal::Sealed;

/// The stored versions of a tenant's sealing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyVersions {
    oldest: u32,
    sealing: u32,
}

/// Whether a rotation must seal a value again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealedAge {
    Current,
    Outdated,
}

impl KeyVersions {
    /// Reads the column `tenants.sealing_version`, with zero for none, and the smallest version in
    /// `tenant_keys`. Altered values admit all writes; reloads of the policy report them.
    pub(crate) fn from_columns(sealing: i64, oldest: Option<i64>) -> Self {
        let oldest = oldest.and_then(|it| u32::try_from(it).ok()).unwrap_or_default();
        let sealing = u32::try_from(sealing).ok().filter(|it| *it > 0).unwrap_or(oldest);
        Self { oldest, sealing }
    }

    /// Fails if the version that sealed the value was destroyed.
    pub(crate) fn check(self, sealed: &Sealed) -> Result<SealedAge, StoreError> {
        match sealed.key_version() {
            Ok(version) if version < self.oldest => Err(StoreError::Unavailable(
                "the key that encrypted this write was destroyed by a rotation; the client \
                 retries with the current key"
                    .into(),
            )),
            Ok(version) if version < self.sealing => Ok(SealedAge::Outdated),
            Ok(_) | Err(_) => Ok(SealedAge::Current),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(version: u32) -> Sealed {
        let mut bytes = vec![1, 1];
        bytes.extend(version.to_be_bytes());
        bytes.extend([0; 64]);
        Sealed::from_stored(bytes)
    }

    #[test]
    fn value_of_a_destroyed_version_is_rejected_and_an_old_one_is_outdated() {
        assert_eq!(sealed(7).key_version().unwrap(), 7, "the bytes are a sealed value");
        let check = |sealing, oldest, version| {
            KeyVersions::from_columns(sealing, oldest).check(&sealed(version)).ok()
        };
        let (current, outdated) = (Some(SealedAge::Current), Some(SealedAge::Outdated));
        let cases = [
            // No rotation yet.
            ((0, Some(1)), [current, current, current]),
            // Added, promoted and finished.
            ((1, Some(1)), [current, current, current]),
            ((2, Some(1)), [outdated, current, current]),
            ((2, Some(2)), [None, current, current]),
            // Altered rows.
            ((-1, None), [current, current, current]),
        ];
        for ((sealing, oldest), expected) in cases {
            let ages = [1, 2, 3].map(|it| check(sealing, oldest, it));
            assert_eq!(ages, expected, "{sealing} {oldest:?}");
        }
        let versions = KeyVersions::from_columns(2, Some(2));
        assert_eq!(versions.check(&Sealed::from_stored(vec![1])).ok(), current);
    }
}
