//! A file into an empty vault, portion by portion, each in one transaction with how far it is; and
//! at the end all of it is read back.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom},
};

use crate::transfer::{
    ImportState, PageBounds, Portion, RowPage, TransferEngine, TransferProgress,
    error::TransferError,
    file::{ExportReader, ExportSummary, NextFrame, check_export},
    kind::RowKind,
    token::token_entries,
    totals::{ExportTotals, RowTotal},
    vault_digest::{WRONG_COLUMNS, count_all_rows, next_page},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportResult {
    pub summary: ExportSummary,
    /// How many rows were in already.
    pub resumed_rows: u64,
}

/// Which part of an import goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportPhase {
    Writing,
    /// The vault is read, and compared.
    ReadingBack,
}

/// A file that was read to its end, and is as it was written.
#[derive(Debug)]
pub struct CheckedExport {
    file: File,
    pub summary: ExportSummary,
}

impl CheckedExport {
    /// `watch` hears how many rows are behind, and of how many.
    ///
    /// # Errors
    /// It cannot be read, or is not an export as one was written.
    pub fn check(
        mut file: File,
        report_progress: impl FnMut(u64, u64),
    ) -> Result<Self, TransferError> {
        file.seek(SeekFrom::Start(0))?;
        let summary = check_export(BufReader::new(&file), report_progress)?;
        Ok(Self { file, summary })
    }
}

/// Writes a file into a vault that is empty, or has what another run of the same file wrote before
/// it was broken off.
///
/// # Errors
/// The vault or the file cannot be used, the vault is another's, or it does not have afterwards what
/// the file has, and cannot be served.
pub async fn import(
    to: &mut dyn TransferEngine,
    export: CheckedExport,
    report_progress: &mut dyn FnMut(ImportPhase, TransferProgress),
) -> Result<ImportResult, TransferError> {
    let CheckedExport { mut file, summary } = export;
    file.seek(SeekFrom::Start(0))?;
    let mut contents = ExportReader::open(BufReader::new(&file))?;
    let state = find_or_start_import(to, contents.header_checksum).await?;
    let all = summary.rows();
    let mut resumed_rows = 0;
    let mut keys = Vec::new();
    while let NextFrame::Portion(portion) = contents.next_checked_frame()? {
        if portion.kind == RowKind::SystemKeys {
            // When everything else is in.
            keys.extend(portion.page.rows);
        } else if contents.portions > state.portions {
            let (portions, sum) = (contents.portions, contents.checksum);
            to.write_portion(&portion, ImportState { portions, checksum: sum, ..state }).await?;
            report_progress(
                ImportPhase::Writing,
                TransferProgress { rows: contents.totals.row_count(), total: all },
            );
        } else {
            resumed_rows = contents.totals.row_count();
            if contents.portions == state.portions && contents.checksum != state.checksum {
                return Err(TransferError::OtherImportUnfinished);
            }
        }
    }
    to.begin_reading().await?;
    let same = compare_with_file(to, &contents.totals, report_progress).await;
    to.end_reading().await?;
    same?;
    let page = RowPage { rows: keys, position: Vec::new() };
    to.complete_import(&Portion { kind: RowKind::SystemKeys, rows_before: 0, page }).await?;
    Ok(ImportResult { summary, resumed_rows })
}

async fn find_or_start_import(
    to: &mut dyn TransferEngine,
    file: [u8; 32],
) -> Result<ImportState, TransferError> {
    match to.find_import_state().await? {
        Some(state) if state.file == file => Ok(state),
        Some(_) => Err(TransferError::OtherImportUnfinished),
        None => {
            to.begin_reading().await?;
            let counts = count_all_rows(to).await;
            to.end_reading().await?;
            let counts = counts?;
            let mut there = RowKind::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
            if there.any(|(kind, _)| !kind.is_singleton()) {
                return Err(TransferError::VaultNotEmpty);
            }
            let state = ImportState { file, portions: 0, checksum: file };
            to.start_import(state).await?;
            Ok(state)
        }
    }
}

/// Whether the vault has what the file has, but for the keys.
async fn compare_with_file(
    to: &mut dyn TransferEngine,
    expected: &ExportTotals,
    report_progress: &mut dyn FnMut(ImportPhase, TransferProgress),
) -> Result<(), TransferError> {
    let all = expected.row_count();
    let mut read = ExportTotals::default();
    let mut entries_max = 0_u64;
    for kind in RowKind::ALL {
        let mut after = None;
        while let Some(page) = next_page(to, kind, after.as_deref(), PageBounds::default()).await? {
            read.add_all(kind, &page.rows).ok_or(WRONG_COLUMNS)?;
            let of_tokens = page.rows.iter().filter(|_| kind == RowKind::Tokens);
            let entries = of_tokens.filter_map(token_entries).map(|it| it.entries.len());
            let entries = entries.fold(0, usize::saturating_add);
            entries_max = entries_max.saturating_add(u64::try_from(entries).unwrap_or(u64::MAX));
            after = Some(page.position);
            report_progress(
                ImportPhase::ReadingBack,
                TransferProgress { rows: read.row_count(), total: all },
            );
        }
        let expected =
            if kind == RowKind::SystemKeys { RowTotal::default() } else { expected.total(kind) };
        if read.total(kind) != expected {
            return Err(TransferError::ContentMismatch { kind: kind.name() });
        }
    }
    if to.count_index_entries().await? != entries_max {
        return Err(TransferError::ContentMismatch { kind: "entries by which tokens are found" });
    }
    Ok(())
}

impl Portion {
    /// The numbers of tokens: where they stand among all.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i64> + use<> {
        i64::try_from(self.rows_before).unwrap_or(i64::MAX).saturating_add(1)..
    }
}
