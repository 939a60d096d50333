//! The buckets that count guesses, and the stored records of counted numbers.

use scrip_seal::IndexDigest;

use crate::{Timestamp, policy::Caller};

/// The class of a caller. Each class has its own counters, so that browsers cannot exhaust the
/// budget of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerClass {
    /// Public applications and access sessions.
    Public,
    Private,
}

impl CallerClass {
    pub(crate) fn for_caller(caller: &Caller) -> Self {
        if caller.guesses_as_browser() { Self::Public } else { Self::Private }
    }
}

/// The key of one counter. The first byte is the caller class and the kind of the counter; the
/// other bytes are a keyed digest of the group or application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GuessBucket(pub [u8; 17]);

/// The counters: one for each group of numbers, application, last four digits of a search,
/// application that searches, and hidden data on which expressions of an application fail.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GuessBucketKind {
    Group,
    Application,
    SearchDigits,
    SearchText,
    RejectedEvaluation,
}

impl GuessBucket {
    pub(crate) fn new(class: CallerClass, kind: GuessBucketKind, digest: IndexDigest) -> Self {
        let class_bits = match class {
            CallerClass::Public => 0,
            CallerClass::Private => 4,
        };
        let kind_bits = match kind {
            GuessBucketKind::Group => 0,
            GuessBucketKind::Application => 1,
            GuessBucketKind::SearchDigits => 2,
            GuessBucketKind::SearchText => 3,
            // The bit of the caller class is 4.
            GuessBucketKind::RejectedEvaluation => 8,
        };
        let mut bytes = [0; 17];
        let source = std::iter::once(class_bits | kind_bits).chain(digest.0);
        for (target, byte) in bytes.iter_mut().zip(source) {
            *target = byte;
        }
        Self(bytes)
    }
}

/// The stored record of one counted number or search term. It contains only digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessRecord {
    pub bucket: GuessBucket,
    pub number_digest: [u8; 16],
    /// The time of the last count.
    pub counted_at: Timestamp,
    /// When no window contains the record any more. The record may then be deleted.
    pub expires_at: Timestamp,
}
