//! Export and import: moves a vault to another engine or another location through a file that
//! contains every row as it is stored. Nothing is decrypted, so no key is needed.
//!
//! docs/decisions/0035-export-and-import.md describes the file format and its reasons.

mod error;
mod export;
mod file;
mod format;
mod frames;
mod import;
mod kind;
mod policy;
mod row;
pub(crate) mod table;
mod token;
mod totals;
mod vault_digest;

use scrip_core::types::StoreFuture;

pub(crate) use self::kind::policy_kinds;
pub(crate) use crate::transfer::token::token_entries;
pub use crate::transfer::{
    error::TransferError,
    export::{ExportOptions, ExportResult, export},
    file::{ExportInfo, ExportSummary, check_export},
    import::{CheckedExport, ImportPhase, ImportResult, import},
    kind::RowKind,
    policy::read_policy,
    row::TransferRow,
};

/// Error message for every use of a vault with an unfinished import, except the import itself.
pub(crate) const UNFINISHED_IMPORT: &str =
    "an import into this vault is not finished; run it again: scrip import FILE";

/// Maximum size of a page of rows.
#[derive(Debug, Clone, Copy)]
pub struct PageBounds {
    pub rows_max: usize,
    /// The page ends after the row that exceeds this limit.
    pub bytes_max: usize,
}

impl Default for PageBounds {
    /// These values limit memory use and keep the cost per commit low.
    fn default() -> Self {
        Self { rows_max: 256, bytes_max: 4 * 1024 * 1024 }
    }
}

/// Rows of one kind, in the order in which the engine reads them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowPage {
    pub rows: Vec<TransferRow>,
    /// Encodes the key of the last row: the engine continues after it. Only the engine that read
    /// the page can decode it.
    pub position: Vec<u8>,
}

/// Rows of a file that are imported together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Portion {
    pub kind: RowKind,
    /// Number of rows of this kind in earlier portions.
    pub rows_before: u64,
    pub page: RowPage,
}

/// The progress of an import, stored in the vault. The transaction of each portion updates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportState {
    /// Checksum of the file's header, which identifies the file.
    pub file_checksum: [u8; 32],
    /// Number of imported portions.
    pub portions: u64,
    /// Checksum of the file up to the end of the last imported portion.
    pub checksum: [u8; 32],
}

/// The number of processed rows and the number of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferProgress {
    pub rows: u64,
    pub total: u64,
}

/// Row-by-row access to an engine. Nothing else may use the vault at the same time.
pub trait TransferEngine: Send {
    /// The name of the engine.
    fn engine(&self) -> &'static str;

    /// The version of the database schema.
    fn schema(&self) -> u32;

    /// Begins a read snapshot.
    fn begin_reading(&mut self) -> StoreFuture<'_, ()>;

    /// Ends the read snapshot.
    fn end_reading(&mut self) -> StoreFuture<'_, ()>;

    fn count_rows(&mut self, kind: RowKind) -> StoreFuture<'_, u64>;

    /// Number of entries of the token index. The file does not contain them, because they are
    /// derived from the tokens' rows.
    fn count_index_entries(&mut self) -> StoreFuture<'_, u64>;

    /// Reads the next rows after a position. The page is empty at the end. Tokens of a tenant are
    /// in the order of their numbers.
    fn read_page<'a>(
        &'a mut self,
        kind: RowKind,
        after: Option<&'a [u8]>,
        bounds: PageBounds,
    ) -> StoreFuture<'a, RowPage>;

    /// Returns the state of an unfinished import.
    fn find_import_state(&mut self) -> StoreFuture<'_, Option<ImportState>>;

    /// Blocks other use of this vault until the import is complete.
    fn start_import(&mut self, state: ImportState) -> StoreFuture<'_, ()>;

    /// Writes the portion and the new state in one transaction. An engine with two databases may
    /// crash between its two commits. Then the next run writes the same portion again, which
    /// changes nothing.
    fn write_portion<'a>(
        &'a mut self,
        portion: &'a Portion,
        state: ImportState,
    ) -> StoreFuture<'a, ()>;

    /// Writes the system keys, without which the vault cannot be used, and ends the import.
    fn complete_import<'a>(&'a mut self, keys: &'a Portion) -> StoreFuture<'a, ()>;
}
