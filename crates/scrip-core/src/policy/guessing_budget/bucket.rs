//! Counters and the records that are counted.

use scrip_seal::IndexDigest;

use crate::{policy::Caller, time::Timestamp};

/// Browsers have counters of their own, so that they cannot spend the budget of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerClass {
    /// Public applications and access sessions.
    Public,
    Private,
}

impl CallerClass {
    pub(crate) fn for_caller(caller: &Caller) -> Self {
        if caller.is_browser() { Self::Public } else { Self::Private }
    }
}

/// A counter: who shares it and what it counts, and a keyed digest of the rest of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuessBucket(pub [u8; 17]);

#[derive(Debug, Clone, Copy)]
pub(crate) enum GuessBucketKind {
    Group,
    Application,
    SearchDigits,
    SearchText,
}

impl GuessBucket {
    pub(crate) fn new(class: CallerClass, kind: GuessBucketKind, name: IndexDigest) -> Self {
        let class = match class {
            CallerClass::Public => 0,
            CallerClass::Private => 4,
        };
        let kind = match kind {
            GuessBucketKind::Group => 0,
            GuessBucketKind::Application => 1,
            GuessBucketKind::SearchDigits => 2,
            GuessBucketKind::SearchText => 3,
        };
        let mut bytes = [0; 17];
        let parts = std::iter::once(class | kind).chain(name.0);
        for (to, from) in bytes.iter_mut().zip(parts) {
            *to = from;
        }
        Self(bytes)
    }
}

/// What a store keeps of one counted number or search term: digests only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessRecord {
    pub bucket: GuessBucket,
    pub number_digest: [u8; 16],
    /// When it was last counted.
    pub counted_at: Timestamp,
    /// When no window holds it any more, and it may be removed.
    pub expires_at: Timestamp,
}
