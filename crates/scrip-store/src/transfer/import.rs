//! Imports a file into an empty vault in portions. Each portion is written in one transaction with
//! the progress. At the end the whole vault is read back and compared.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom},
};

use scrip_core::{policy::SystemKeys, unlock::VaultUnlocks};

use crate::{
    sql::read_required,
    transfer::{
        ImportState, PageBounds, Portion, RowPage, TransferEngine, TransferProgress, TransferRow,
        error::TransferError,
        file::{ExportReader, ExportSummary, NextFrame, read_export},
        kind::RowKind,
        policy::add_unlock_row,
        token::token_entries,
        totals::{ExportTotals, RowTotal},
        vault_digest::{WRONG_COLUMNS, count_all_rows, next_page},
    },
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportResult {
    pub summary: ExportSummary,
    /// Rows that an earlier run had already imported.
    pub resumed_rows: u64,
}

/// The current phase of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportPhase {
    Writing,
    /// The vault is read back and compared.
    ReadingBack,
}

/// A file that was read to its end without an error.
#[derive(Debug)]
pub struct CheckedExport {
    file: File,
    pub summary: ExportSummary,
    /// The wrapped system keys, which only the root key of the exported vault opens. `None` if the
    /// file contains no valid ones.
    pub system_keys: Option<SystemKeys>,
    pub unlocks: VaultUnlocks,
}

impl CheckedExport {
    /// Reads the file to its end. `report_progress` receives the number of checked rows and the
    /// total.
    /// Errors: the file cannot be read, or is not an intact export.
    pub fn check(
        mut file: File,
        report_progress: impl FnMut(u64, u64),
    ) -> Result<Self, TransferError> {
        file.seek(SeekFrom::Start(0))?;
        let (mut rows, mut unlocks) = (Vec::new(), VaultUnlocks::default());
        let summary = read_export(BufReader::new(&file), report_progress, |portion| {
            if portion.kind == RowKind::SystemKeys {
                rows.extend(portion.page.rows);
            } else if [RowKind::VaultState, RowKind::Unlocks].contains(&portion.kind) {
                let rows = portion.page.rows.iter();
                rows.for_each(|it| add_unlock_row(&mut unlocks, portion.kind, it));
            }
        })?;
        Ok(Self { file, summary, system_keys: read_system_keys(&rows), unlocks })
    }
}

/// Returns the wrapped keys, or `None` if a row is missing or not valid.
fn read_system_keys(rows: &[TransferRow]) -> Option<SystemKeys> {
    let find_key = |name: &str| {
        let is_named =
            |row: &&TransferRow| read_required::<&str>(*row, 0).is_ok_and(|it| it == name);
        read_required(rows.iter().find(is_named)?, 1).ok()
    };
    Some(SystemKeys { pepper: find_key("pepper")?, audit_key: find_key("audit")? })
}

/// Imports a file into a vault that is empty or contains the beginning of an interrupted import of
/// the same file.
///
/// Errors: the vault or the file cannot be used, the vault is not empty, or it differs after the
/// import.
pub async fn import(
    engine: &mut dyn TransferEngine,
    export: CheckedExport,
    report_progress: &mut dyn FnMut(ImportPhase, TransferProgress),
) -> Result<ImportResult, TransferError> {
    let CheckedExport { mut file, summary, .. } = export;
    file.seek(SeekFrom::Start(0))?;
    let mut reader = ExportReader::open(BufReader::new(&file))?;
    let state = find_or_start_import(engine, reader.header_checksum).await?;
    let total_rows = summary.rows();
    let mut resumed_rows = 0;
    let mut keys = Vec::new();
    while let NextFrame::Portion(portion) = reader.next_checked_frame()? {
        if portion.kind == RowKind::SystemKeys {
            // `complete_import` writes the keys after all other rows.
            keys.extend(portion.page.rows);
        } else if reader.portions > state.portions {
            let (portions, checksum) = (reader.portions, reader.checksum);
            engine.write_portion(&portion, ImportState { portions, checksum, ..state }).await?;
            report_progress(
                ImportPhase::Writing,
                TransferProgress { rows: reader.totals.row_count(), total: total_rows },
            );
        } else {
            resumed_rows = reader.totals.row_count();
            if reader.portions == state.portions && reader.checksum != state.checksum {
                return Err(TransferError::OtherImportUnfinished);
            }
        }
    }
    engine.begin_reading().await?;
    let comparison = compare_with_file(engine, &reader.totals, report_progress).await;
    engine.end_reading().await?;
    comparison?;
    let page = RowPage { rows: keys, position: Vec::new() };
    engine.complete_import(&Portion { kind: RowKind::SystemKeys, rows_before: 0, page }).await?;
    Ok(ImportResult { summary, resumed_rows })
}

async fn find_or_start_import(
    engine: &mut dyn TransferEngine,
    file_checksum: [u8; 32],
) -> Result<ImportState, TransferError> {
    match engine.find_import_state().await? {
        Some(state) if state.file_checksum == file_checksum => Ok(state),
        Some(_) => Err(TransferError::OtherImportUnfinished),
        None => {
            engine.begin_reading().await?;
            let counts = count_all_rows(engine).await;
            engine.end_reading().await?;
            let counts = counts?;
            let mut existing_kinds =
                RowKind::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
            if existing_kinds.any(|(kind, _)| !kind.is_singleton()) {
                return Err(TransferError::VaultNotEmpty);
            }
            let state = ImportState { file_checksum, portions: 0, checksum: file_checksum };
            engine.start_import(state).await?;
            Ok(state)
        }
    }
}

/// Compares the rows in the vault with the totals of the file. The vault must not contain the
/// system keys yet.
async fn compare_with_file(
    engine: &mut dyn TransferEngine,
    expected: &ExportTotals,
    report_progress: &mut dyn FnMut(ImportPhase, TransferProgress),
) -> Result<(), TransferError> {
    let total_rows = expected.row_count();
    let mut stored = ExportTotals::default();
    let mut expected_index_entries = 0_u64;
    for kind in RowKind::ALL {
        let mut position = None;
        while let Some(page) =
            next_page(engine, kind, position.as_deref(), PageBounds::default()).await?
        {
            stored.add_all(kind, &page.rows).ok_or(WRONG_COLUMNS)?;
            let token_rows = page.rows.iter().filter(|_| kind == RowKind::Tokens);
            let entry_counts = token_rows.filter_map(token_entries).map(|it| it.entries.len());
            let page_entries = entry_counts.fold(0, usize::saturating_add);
            let page_entries = u64::try_from(page_entries).unwrap_or(u64::MAX);
            expected_index_entries = expected_index_entries.saturating_add(page_entries);
            position = Some(page.position);
            report_progress(
                ImportPhase::ReadingBack,
                TransferProgress { rows: stored.row_count(), total: total_rows },
            );
        }
        let is_skipped = kind == RowKind::SystemKeys || kind.is_retired();
        let expected_total = if is_skipped { RowTotal::default() } else { expected.total(kind) };
        if stored.total(kind) != expected_total {
            return Err(TransferError::ContentMismatch { kind: kind.name() });
        }
    }
    if engine.count_index_entries().await? != expected_index_entries {
        return Err(TransferError::ContentMismatch { kind: "token index entries" });
    }
    Ok(())
}

impl Portion {
    /// The numbers of the tokens of this portion: their positions among all tokens of the file.
    pub(crate) fn token_numbers(&self) -> impl Iterator<Item = i64> + use<> {
        i64::try_from(self.rows_before).unwrap_or(i64::MAX).saturating_add(1)..
    }
}
