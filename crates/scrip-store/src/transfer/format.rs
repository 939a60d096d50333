//! The versions of the export file. A program writes the newest version and reads all of them.

use scrip_core::policy::entity::Column;
use scrip_seal::Checksum;

use crate::transfer::kind::{NEWEST_FILE_VERSION, RowKind};

/// The version of a file, which is one digit of its magic number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileFormat(u8);

/// The length of the magic number.
pub(super) const MAGIC_BYTES: usize = 16;

impl FileFormat {
    pub(super) const FIRST: Self = Self(1);
    /// The first version with the detail of log records.
    const WITH_DETAIL: Self = Self(2);
    /// The first version with origins of applications.
    const WITH_ORIGINS: Self = Self(6);
    /// The first version with the promoted versions of sealing keys.
    const WITH_PROMOTED_VERSIONS: Self = Self(7);
    pub(super) const NEWEST: Self = Self(NEWEST_FILE_VERSION);

    /// The start of the file.
    pub(super) fn magic(self) -> [u8; MAGIC_BYTES] {
        let mut magic = *b"\nscrip export _\n";
        for byte in magic.iter_mut().filter(|it| **it == b'_') {
            *byte = b'0'.saturating_add(self.0);
        }
        magic
    }

    pub(super) fn from_magic(magic: [u8; MAGIC_BYTES]) -> Option<Self> {
        (Self::FIRST.0..=Self::NEWEST.0).map(Self).find(|it| it.magic() == magic)
    }

    /// The checksum before the first frame.
    pub(super) fn magic_checksum(self) -> [u8; 32] {
        let mut checksum = Checksum::new();
        checksum.add(&self.magic());
        checksum.finish()
    }

    /// Whether files of this version contain the kind.
    pub(super) fn has_kind(self, kind: RowKind) -> bool {
        kind.versions().contains(&self.0)
    }

    /// The kinds in the order of the file. A portion has the position of its kind in this list.
    pub(super) fn kinds(self) -> impl Iterator<Item = RowKind> {
        RowKind::ALL.into_iter().filter(move |it| self.has_kind(*it))
    }

    /// The position of a kind in the list of kinds.
    pub(super) fn position(self, kind: RowKind) -> Option<u8> {
        u8::try_from(self.kinds().position(|it| it == kind)?).ok()
    }

    /// The columns of a kind. Later versions append columns, which are NULL in older rows.
    pub(super) fn columns(self, kind: RowKind) -> &'static [Column] {
        // The first version with the last column.
        let complete = if [RowKind::AuditRecords, RowKind::ReadLogRecords].contains(&kind) {
            Self::WITH_DETAIL
        } else if kind == RowKind::Applications {
            Self::WITH_ORIGINS
        } else if kind == RowKind::Tenants {
            Self::WITH_PROMOTED_VERSIONS
        } else {
            Self::FIRST
        };
        match kind.columns() {
            [columns @ .., _] if self < complete => columns,
            columns => columns,
        }
    }
}
