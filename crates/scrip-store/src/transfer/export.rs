//! A vault into a file, portion by portion. Each is on disk before the next is read, so whoever is
//! broken off goes on behind the last one.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom, Write},
};

use crate::transfer::{
    PageBounds, Portion, RowPage, TransferEngine, TransferProgress,
    error::TransferError,
    file::{
        ExportInfo, ExportReader, ExportSummary, MAGIC, NextFrame, check_rows, encode_frame,
        magic_checksum,
    },
    frames::{ExportHeader, encode_end, encode_portion},
    kind::RowKind,
    totals::ExportTotals,
    vault_digest::{
        VaultDigest, WRONG_COLUMNS, compute_vault_digest, next_page, read_vault_digest,
    },
};

/// What an export is made with.
pub struct ExportOptions<'a> {
    /// The version of this program, and the time.
    pub program: &'a str,
    pub created_at_unix_ms: i64,
    pub bounds: PageBounds,
    pub report_progress: &'a mut dyn FnMut(TransferProgress),
}

impl std::fmt::Debug for ExportOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporting")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportResult {
    pub summary: ExportSummary,
    /// How many rows were there already.
    pub resumed_rows: u64,
    pub bytes: u64,
}

/// Writes a vault to a file that is empty, or has what another run wrote before it was broken off.
///
/// # Errors
/// The vault or the file cannot be used; or the vault changed meanwhile, and what was written is of
/// no use.
pub async fn export(
    from: &mut dyn TransferEngine,
    file: &mut File,
    options: ExportOptions<'_>,
) -> Result<ExportResult, TransferError> {
    from.begin_reading().await?;
    let exported = export_snapshot(from, file, options).await;
    from.end_reading().await?;
    let (mut draft, before, resumed_rows) = exported?;
    // Until here nothing else could be seen; now it can.
    if read_vault_digest(from).await? != before {
        return Err(TransferError::VaultChanged);
    }
    let end = encode_end(draft.portions, &draft.totals.totals());
    draft.append(&end)?;
    let bytes = draft.file.metadata()?.len();
    Ok(ExportResult { summary: ExportSummary::from_header(&draft.header), resumed_rows, bytes })
}

async fn export_snapshot<'f>(
    from: &mut dyn TransferEngine,
    file: &'f mut File,
    options: ExportOptions<'_>,
) -> Result<(PartialExport<'f>, VaultDigest, u64), TransferError> {
    let standing = compute_vault_digest(from).await?;
    if from.count_rows(RowKind::SystemKeys).await? == 0 {
        return Err(TransferError::VaultMissing);
    }
    let about = ExportInfo {
        program: options.program.to_owned(),
        engine: from.engine().to_owned(),
        schema: from.schema(),
        created_at_unix_ms: options.created_at_unix_ms,
    };
    let header = ExportHeader {
        info: about,
        vault_checksum: standing.checksum,
        counts: standing.counts.clone(),
    };
    let mut draft = PartialExport::open(file, header)?;
    let resumed = draft.totals.row_count();
    let all = standing.counts.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
    for kind in RowKind::ALL {
        let (last, mut after) = draft.last.take().unzip();
        // Whole before it was broken off.
        if last.is_some_and(|it: RowKind| it.index() > kind.index()) {
            draft.last = last.zip(after);
            continue;
        }
        while let Some(page) = next_page(from, kind, after.as_deref(), options.bounds).await? {
            let page = draft.put(kind, page)?;
            after = Some(page.position);
            (options.report_progress)(TransferProgress {
                rows: draft.totals.row_count(),
                total: all,
            });
        }
    }
    if draft.totals.totals().iter().map(|it| it.rows).ne(standing.counts.iter().copied()) {
        return Err(TransferError::VaultChanged);
    }
    Ok((draft, standing, resumed))
}

/// A file without its end.
struct PartialExport<'f> {
    file: &'f mut File,
    header: ExportHeader,
    checksum: [u8; 32],
    portions: u64,
    totals: ExportTotals,
    /// Kind and position of the last portion that was there.
    last: Option<(RowKind, Vec<u8>)>,
}

impl<'f> PartialExport<'f> {
    fn open(file: &'f mut File, header: ExportHeader) -> Result<Self, TransferError> {
        file.seek(SeekFrom::Start(0))?;
        match ExportReader::open(BufReader::new(&*file)) {
            Ok(contents) => {
                let (contents, at) = scan_complete_frames(contents)?;
                if contents.header.vault_checksum != header.vault_checksum {
                    return Err(TransferError::ExportOutdated);
                }
                let ExportReader { checksum: sum, header, portions, totals: tallies, last, .. } =
                    contents;
                file.set_len(at)?;
                file.seek(SeekFrom::End(0))?;
                Ok(Self { file, header, checksum: sum, portions, totals: tallies, last })
            }
            // Broken off before anything was whole.
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
        file.write_all(&MAGIC)?;
        let body = header.encode().ok_or(WRONG_COLUMNS)?;
        let (tallies, last) = (ExportTotals::default(), None);
        let mut draft =
            Self { file, header, checksum: magic_checksum(), portions: 0, totals: tallies, last };
        draft.append(&body)?;
        Ok(draft)
    }

    /// On disk when this is over.
    fn append(&mut self, body: &[u8]) -> Result<(), TransferError> {
        let (bytes, sum) = encode_frame(self.checksum, body)?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.checksum = sum;
        Ok(())
    }

    fn put(&mut self, kind: RowKind, page: RowPage) -> Result<RowPage, TransferError> {
        let portion = Portion { kind, rows_before: 0, page };
        check_rows(&portion).map_err(scrip_core::store::StoreError::Corrupt)?;
        let number = self.portions.saturating_add(1);
        let body = encode_portion(number, kind, &portion.page).ok_or(WRONG_COLUMNS)?;
        self.totals.add_all(kind, &portion.page.rows).ok_or(WRONG_COLUMNS)?;
        self.append(&body)?;
        self.portions = number;
        Ok(portion.page)
    }
}

/// To where it is whole, which is before the end if it has one.
fn scan_complete_frames<R: std::io::Read>(
    mut contents: ExportReader<R>,
) -> Result<(ExportReader<R>, u64), TransferError> {
    loop {
        let (at, sum) = (contents.offset, contents.checksum);
        let body = match contents.next_frame() {
            Ok(body) => body,
            Err(TransferError::Unfinished { .. } | TransferError::Damaged { .. }) => {
                return Ok((contents, at));
            }
            Err(error) => return Err(error),
        };
        match contents
            .accept_frame(&body)
            .map_err(|what| TransferError::Damaged { offset: at, reason: what })?
        {
            NextFrame::Portion(_) => (),
            NextFrame::End => {
                contents.checksum = sum;
                return Ok((contents, at));
            }
        }
    }
}
