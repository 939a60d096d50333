//! Moving a vault from one engine to another, or to another place of the same: through a file, with
//! every row as it is stored. Nothing is opened on the way, so no key is needed.
//!
//! What the file is and why is in docs/decisions/0035-moving-a-vault.md.

mod error;
mod export;
mod file;
mod frames;
mod import;
mod kind;
mod row;
pub(crate) mod table;
mod token;
mod totals;
mod vault_digest;

use scrip_core::store::StoreFuture;

pub(crate) use crate::transfer::token::token_entries;
pub use crate::transfer::{
    error::TransferError,
    export::{ExportOptions, ExportResult, export},
    file::{ExportInfo, ExportSummary, check_export},
    import::{CheckedExport, ImportPhase, ImportResult, import},
    kind::{ColumnType, RowColumn, RowKind},
    row::{RowValue, TransferRow},
};

/// Why nobody else may use a vault.
pub(crate) const UNFINISHED_IMPORT: &str =
    "an import into this vault is not finished; run it again: scrip import FILE";

/// How much of a vault is read, and written, at once.
#[derive(Debug, Clone, Copy)]
pub struct PageBounds {
    pub rows_max: usize,
    /// It ends behind the row that goes past it.
    pub bytes_max: usize,
}

impl Default for PageBounds {
    /// Little enough to be kept in memory, and enough that a commit for each costs little.
    fn default() -> Self {
        Self { rows_max: 256, bytes_max: 4 * 1024 * 1024 }
    }
}

/// Rows of one kind, in the order in which the engine has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowPage {
    pub rows: Vec<TransferRow>,
    /// Where the engine goes on behind the last of them. Nobody else understands it.
    pub position: Vec<u8>,
}

/// Rows of a file that go into a vault together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    pub kind: RowKind,
    /// How many rows of this kind come before.
    pub rows_before: u64,
    pub page: RowPage,
}

/// How far an import has come. It is in the vault, and changes in the transaction of each portion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportState {
    /// Which file: the checksum of its beginning.
    pub file: [u8; 32],
    pub portions: u64,
    /// Of the file up to there.
    pub checksum: [u8; 32],
}

/// How many rows are done, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferProgress {
    pub rows: u64,
    pub total: u64,
}

/// An engine, row by row. Nothing else uses the vault meanwhile.
pub trait TransferEngine: Send {
    fn engine(&self) -> &'static str;

    fn schema(&self) -> u32;

    /// What is read from now on is of one instant.
    fn begin_reading(&mut self) -> StoreFuture<'_, ()>;

    fn end_reading(&mut self) -> StoreFuture<'_, ()>;

    fn count_rows(&mut self, kind: RowKind) -> StoreFuture<'_, u64>;

    /// How many entries there are by which tokens are found. They do not travel: a token's row
    /// says all of its own.
    fn count_index_entries(&mut self) -> StoreFuture<'_, u64>;

    /// The next rows behind a position; none at the end. Those of tokens in the order of their
    /// numbers, of each tenant.
    fn read_page<'a>(
        &'a mut self,
        kind: RowKind,
        after: Option<&'a [u8]>,
        bounds: PageBounds,
    ) -> StoreFuture<'a, RowPage>;

    /// How far an import has come that has not ended.
    fn find_import_state(&mut self) -> StoreFuture<'_, Option<ImportState>>;

    /// From now on nobody serves this vault, until the import has ended.
    fn start_import(&mut self, state: ImportState) -> StoreFuture<'_, ()>;

    /// In one transaction with the state after it. After a crash between the two, where an engine
    /// cannot, the same portion comes again and changes nothing.
    fn write_portion<'a>(
        &'a mut self,
        portion: &'a Portion,
        state: ImportState,
    ) -> StoreFuture<'a, ()>;

    /// The vault's own keys, without which it is none; and there is no import any more.
    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()>;
}
