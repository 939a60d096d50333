//! The versions of the export file. A program writes the newest version and reads all of them.

use scrip_core::policy::entity::Column;
use scrip_seal::Checksum;

use crate::transfer::kind::RowKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum FileFormat {
    /// Without proxies, and without the detail of log records.
    First,
    /// Without webhooks.
    Second,
    /// With the events of 3DS sessions in place of deliveries.
    Third,
    /// Without client encryption keys.
    Fourth,
    /// Without origins of applications.
    Fifth,
    /// Without unlock methods, and without the promoted versions of sealing keys.
    Sixth,
    #[default]
    Seventh,
}

/// The length of the magic number.
pub(super) const MAGIC_BYTES: usize = 16;

impl FileFormat {
    pub(super) const NEWEST: Self = Self::Seventh;

    /// The start of the file.
    pub(super) fn magic(self) -> [u8; MAGIC_BYTES] {
        match self {
            Self::First => *b"\nscrip export 1\n",
            Self::Second => *b"\nscrip export 2\n",
            Self::Third => *b"\nscrip export 3\n",
            Self::Fourth => *b"\nscrip export 4\n",
            Self::Fifth => *b"\nscrip export 5\n",
            Self::Sixth => *b"\nscrip export 6\n",
            Self::Seventh => *b"\nscrip export 7\n",
        }
    }

    pub(super) fn from_magic(magic: [u8; MAGIC_BYTES]) -> Option<Self> {
        let formats = [
            Self::First,
            Self::Second,
            Self::Third,
            Self::Fourth,
            Self::Fifth,
            Self::Sixth,
            Self::Seventh,
        ];
        formats.into_iter().find(|it| it.magic() == magic)
    }

    /// The checksum before the first frame.
    pub(super) fn magic_checksum(self) -> [u8; 32] {
        let mut checksum = Checksum::new();
        checksum.add(&self.magic());
        checksum.finish()
    }

    /// Whether files of this version contain the kind.
    pub(super) fn has_kind(self, kind: RowKind) -> bool {
        let missing: &[RowKind] = match self {
            Self::First => {
                &[RowKind::Proxies, RowKind::Webhooks, RowKind::Deliveries, RowKind::ClientKeys]
            }
            Self::Second => &[RowKind::Webhooks, RowKind::Deliveries, RowKind::ClientKeys],
            Self::Third => &[RowKind::Deliveries, RowKind::ClientKeys],
            Self::Fourth => &[RowKind::LastEvent, RowKind::ThreeDsEvents, RowKind::ClientKeys],
            Self::Fifth | Self::Sixth | Self::Seventh => {
                &[RowKind::LastEvent, RowKind::ThreeDsEvents]
            }
        };
        let unlock_kinds = [RowKind::VaultState, RowKind::Unlocks];
        let is_too_new = unlock_kinds.contains(&kind) && self != Self::Seventh;
        !is_too_new && !missing.contains(&kind)
    }

    /// The kinds in the order of the file. A portion has the position of its kind in this list.
    pub(super) fn kinds(self) -> impl Iterator<Item = RowKind> {
        RowKind::ALL.into_iter().filter(move |it| self.has_kind(*it))
    }

    /// The position of a kind in the list of kinds.
    pub(super) fn position(self, kind: RowKind) -> Option<u8> {
        u8::try_from(self.kinds().position(|it| it == kind)?).ok()
    }

    fn has_origins(self) -> bool {
        matches!(self, Self::Sixth | Self::Seventh)
    }

    /// The columns of a kind. Later versions append columns, which are NULL in older rows.
    pub(super) fn columns(self, kind: RowKind) -> &'static [Column] {
        let has_detail = [RowKind::AuditRecords, RowKind::ReadLogRecords].contains(&kind);
        match kind.columns() {
            [columns @ .., _] if has_detail && self == Self::First => columns,
            [columns @ .., _] if kind == RowKind::Applications && !self.has_origins() => columns,
            [columns @ .., _] if kind == RowKind::Tenants && self != Self::Seventh => columns,
            columns => columns,
        }
    }
}
