//! Exports a vault to a file in portions. Each portion is durable before the next one is read, so
//! an interrupted export continues after the last portion.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom, Write},
};

use crate::transfer::{
    PageBounds, Portion, RowPage, TransferEngine, TransferProgress,
    error::TransferError,
    file::{ExportInfo, ExportReader, ExportSummary, NextFrame, check_rows, encode_frame},
    format::FileFormat,
    frames::{ExportHeader, encode_end, encode_portion},
    kind::RowKind,
    totals::ExportTotals,
    vault_digest::{
        VaultDigest, WRONG_COLUMNS, compute_vault_digest, next_page, read_vault_digest,
    },
};

/// Options of an export.
pub struct ExportOptions<'a> {
    /// The version of this program.
    pub program: &'a str,
    pub created_at_unix_ms: i64,
    pub bounds: PageBounds,
    pub report_progress: &'a mut dyn FnMut(TransferProgress),
}

impl std::fmt::Debug for ExportOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ExportOptions")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportResult {
    pub summary: ExportSummary,
    /// Rows that an earlier run had already written.
    pub resumed_rows: u64,
    pub bytes: u64,
}

/// Exports a vault to a file that is empty or contains the beginning of an interrupted export.
/// Errors: the vault or the file cannot be used, or the vault changed and the file is unusable.
pub async fn export(
    engine: &mut dyn TransferEngine,
    file: &mut File,
    options: ExportOptions<'_>,
) -> Result<ExportResult, TransferError> {
    engine.begin_reading().await?;
    let result = export_snapshot(engine, file, options).await;
    engine.end_reading().await?;
    let (mut partial_export, exported_digest, resumed_rows) = result?;
    // The new snapshot contains changes that were made during the export.
    if read_vault_digest(engine).await? != exported_digest {
        return Err(TransferError::VaultChanged);
    }
    let end_frame = encode_end(partial_export.portions, &partial_export.totals.totals());
    partial_export.append(&end_frame)?;
    let bytes = partial_export.file.metadata()?.len();
    Ok(ExportResult {
        summary: ExportSummary::from_header(&partial_export.header),
        resumed_rows,
        bytes,
    })
}

async fn export_snapshot<'f>(
    engine: &mut dyn TransferEngine,
    file: &'f mut File,
    options: ExportOptions<'_>,
) -> Result<(PartialExport<'f>, VaultDigest, u64), TransferError> {
    let vault_digest = compute_vault_digest(engine).await?;
    if engine.count_rows(RowKind::SystemKeys).await? == 0 {
        return Err(TransferError::VaultMissing);
    }
    let info = ExportInfo {
        program: options.program.to_owned(),
        engine: engine.engine().to_owned(),
        schema: engine.schema(),
        created_at_unix_ms: options.created_at_unix_ms,
    };
    let header = ExportHeader {
        info,
        vault_checksum: vault_digest.checksum,
        counts: vault_digest.counts.clone(),
    };
    let mut partial_export = PartialExport::open(file, header)?;
    let resumed_rows = partial_export.totals.row_count();
    let total_rows = vault_digest.counts.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
    for kind in RowKind::ALL {
        let (last_kind, mut position) = partial_export.last.take().unzip();
        // An earlier run exported this kind completely.
        if last_kind.is_some_and(|it: RowKind| it.index() > kind.index()) {
            partial_export.last = last_kind.zip(position);
            continue;
        }
        while let Some(page) = next_page(engine, kind, position.as_deref(), options.bounds).await? {
            let page = partial_export.append_portion(kind, page)?;
            position = Some(page.position);
            (options.report_progress)(TransferProgress {
                rows: partial_export.totals.row_count(),
                total: total_rows,
            });
        }
    }
    if partial_export
        .totals
        .totals()
        .iter()
        .map(|it| it.rows)
        .ne(vault_digest.counts.iter().copied())
    {
        return Err(TransferError::VaultChanged);
    }
    Ok((partial_export, vault_digest, resumed_rows))
}

/// An export file without an end frame.
struct PartialExport<'f> {
    file: &'f mut File,
    header: ExportHeader,
    checksum: [u8; 32],
    portions: u64,
    totals: ExportTotals,
    /// Kind and position of the last portion in the file.
    last: Option<(RowKind, Vec<u8>)>,
}

impl<'f> PartialExport<'f> {
    fn open(file: &'f mut File, header: ExportHeader) -> Result<Self, TransferError> {
        file.seek(SeekFrom::Start(0))?;
        match ExportReader::open(BufReader::new(&*file)) {
            Ok(contents) => {
                let (contents, end_offset) = scan_complete_frames(contents)?;
                if contents.format != FileFormat::NEWEST
                    || contents.header.vault_checksum != header.vault_checksum
                {
                    return Err(TransferError::ExportOutdated);
                }
                let ExportReader { checksum, header, portions, totals, last, .. } = contents;
                file.set_len(end_offset)?;
                file.seek(SeekFrom::End(0))?;
                Ok(Self { file, header, checksum, portions, totals, last })
            }
            // An earlier export stopped before its first frame was complete.
            Err(
                TransferError::NotAnExport
                | TransferError::Unfinished { .. }
                | TransferError::Damaged { .. },
            ) => Self::begin(file, header),
            Err(error) => Err(error),
        }
    }

    fn begin(file: &'f mut File, header: ExportHeader) -> Result<Self, TransferError> {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&FileFormat::NEWEST.magic())?;
        let body = header.encode().ok_or(WRONG_COLUMNS)?;
        let (totals, last) = (ExportTotals::default(), None);
        let checksum = FileFormat::NEWEST.magic_checksum();
        let mut partial_export = Self { file, header, checksum, portions: 0, totals, last };
        partial_export.append(&body)?;
        Ok(partial_export)
    }

    /// Appends a frame. The frame is durable when this function returns.
    fn append(&mut self, body: &[u8]) -> Result<(), TransferError> {
        let (bytes, checksum) = encode_frame(self.checksum, body)?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.checksum = checksum;
        Ok(())
    }

    /// Appends a portion and returns its page.
    fn append_portion(&mut self, kind: RowKind, page: RowPage) -> Result<RowPage, TransferError> {
        let portion = Portion { kind, rows_before: 0, page };
        check_rows(&portion).map_err(scrip_core::types::StoreError::Corrupt)?;
        let number = self.portions.saturating_add(1);
        let body = encode_portion(number, kind, &portion.page).ok_or(WRONG_COLUMNS)?;
        self.totals.add_all(kind, &portion.page.rows).ok_or(WRONG_COLUMNS)?;
        self.append(&body)?;
        self.portions = number;
        Ok(portion.page)
    }
}

/// Reads up to the last complete frame, without the end frame. Returns the reader and the offset
/// after that frame.
fn scan_complete_frames<R: std::io::Read>(
    mut contents: ExportReader<R>,
) -> Result<(ExportReader<R>, u64), TransferError> {
    loop {
        let (offset, checksum) = (contents.offset, contents.checksum);
        let body = match contents.next_frame() {
            Ok(body) => body,
            Err(TransferError::Unfinished { .. } | TransferError::Damaged { .. }) => {
                return Ok((contents, offset));
            }
            Err(error) => return Err(error),
        };
        match contents
            .accept_frame(&body)
            .map_err(|reason| TransferError::Damaged { offset, reason })?
        {
            NextFrame::Portion(_) => (),
            NextFrame::End => {
                contents.checksum = checksum;
                return Ok((contents, offset));
            }
        }
    }
}
