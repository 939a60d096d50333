//! The export file: a magic number, then frames. A frame has its length, its bytes, and a checksum
//! over both and the checksum of the previous frame. So a changed, missing, repeated or moved frame
//! is detected, and a truncated file has no end frame.

use std::io::{self, ErrorKind, Read};

use scrip_seal::Checksum;

use crate::transfer::{
    Portion,
    error::TransferError,
    format::{FileFormat, MAGIC_BYTES},
    frames::{ExportHeader, FrameBody, decode_frame_body},
    kind::RowKind,
    token::token_entries,
    totals::ExportTotals,
};

pub use crate::transfer::frames::ExportInfo;

/// Maximum size of a frame, far above the size of any portion.
const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;

/// Encodes a frame. Also returns its checksum.
pub(super) fn encode_frame(
    previous_checksum: [u8; 32],
    body: &[u8],
) -> io::Result<(Vec<u8>, [u8; 32])> {
    let length = u32::try_from(body.len()).ok().filter(|it| *it <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a portion is too large"))?.to_be_bytes();
    let checksum = frame_checksum(previous_checksum, length, body);
    Ok(([&length, body, &checksum].concat(), checksum))
}

fn frame_checksum(previous_checksum: [u8; 32], length: [u8; 4], body: &[u8]) -> [u8; 32] {
    let mut checksum = Checksum::new();
    checksum.add(&previous_checksum);
    checksum.add(&length);
    checksum.add(body);
    checksum.finish()
}

/// Reads an export file from its beginning and checks each frame before it returns the content.
#[derive(Debug)]
pub(super) struct ExportReader<R> {
    input: R,
    pub(super) format: FileFormat,
    /// Offset after the last complete frame.
    pub(super) offset: u64,
    pub(super) checksum: [u8; 32],
    pub(super) header: ExportHeader,
    /// Checksum of the header, which identifies the file.
    pub(super) header_checksum: [u8; 32],
    pub(super) portions: u64,
    pub(super) totals: ExportTotals,
    /// Kind and position of the last portion.
    pub(super) last: Option<(RowKind, Vec<u8>)>,
}

/// The content of the next frame, after all checks.
#[derive(Debug)]
pub(super) enum NextFrame {
    Portion(Portion),
    End,
}

impl<R: Read> ExportReader<R> {
    pub(super) fn open(mut input: R) -> Result<Self, TransferError> {
        let mut magic = [0; MAGIC_BYTES];
        match input.read_exact(&mut magic) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(TransferError::NotAnExport);
            }
            result => result?,
        }
        let format = FileFormat::from_magic(magic).ok_or(TransferError::NotAnExport)?;
        let mut reader = Self {
            input,
            format,
            offset: u64::try_from(MAGIC_BYTES).unwrap_or_default(),
            checksum: format.magic_checksum(),
            header: ExportHeader::default(),
            header_checksum: [0; 32],
            portions: 0,
            totals: ExportTotals::default(),
            last: None,
        };
        let body = reader.next_frame()?;
        reader.header = ExportHeader::decode(format, &body).ok_or(TransferError::NotAnExport)?;
        reader.header_checksum = reader.checksum;
        Ok(reader)
    }

    pub(super) fn next_checked_frame(&mut self) -> Result<NextFrame, TransferError> {
        let offset = self.offset;
        let body = self.next_frame()?;
        self.accept_frame(&body).map_err(|reason| TransferError::Damaged { offset, reason })
    }

    /// Reads the next complete frame. The state does not change on an error.
    pub(super) fn next_frame(&mut self) -> Result<Vec<u8>, TransferError> {
        let offset = self.offset;
        let damaged_error = |reason| TransferError::Damaged { offset, reason };
        let mut length_bytes = [0; 4];
        self.read_exact(&mut length_bytes)?;
        let length = u32::from_be_bytes(length_bytes);
        if length > FRAME_BYTES_MAX {
            return Err(damaged_error("a portion is too large"));
        }
        // Allocates only as much as the file contains, even if the stored length is larger.
        let mut body = Vec::new();
        self.input.by_ref().take(u64::from(length)).read_to_end(&mut body)?;
        if u32::try_from(body.len()) != Ok(length) {
            return Err(TransferError::Unfinished { offset });
        }
        let mut stored_checksum = [0; 32];
        self.read_exact(&mut stored_checksum)?;
        let checksum = frame_checksum(self.checksum, length_bytes, &body);
        if checksum != stored_checksum {
            return Err(damaged_error("wrong checksum"));
        }
        self.checksum = checksum;
        self.offset = offset.saturating_add(u64::from(length)).saturating_add(FRAME_OVERHEAD_BYTES);
        Ok(body)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), TransferError> {
        match self.input.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(TransferError::Unfinished { offset: self.offset })
            }
            result => Ok(result?),
        }
    }

    /// Checks that a frame is valid at this position and updates the totals. The error is the
    /// reason for the rejection.
    pub(super) fn accept_frame(&mut self, body: &[u8]) -> Result<NextFrame, &'static str> {
        match decode_frame_body(self.format, body).ok_or("unknown frame")? {
            FrameBody::Portion(number, portion) => {
                if number != self.portions.saturating_add(1) {
                    return Err("a portion is out of order");
                }
                self.accept_portion(portion).map(NextFrame::Portion)
            }
            FrameBody::End(portions, totals) => {
                if portions != self.portions || totals != self.totals.totals() {
                    return Err("the totals at the end do not match the rows");
                }
                let counts: Vec<_> = totals.iter().map(|it| it.rows).collect();
                if counts != self.header.counts {
                    return Err("the counts in the header do not match the rows");
                }
                match self.input.read(&mut [0]) {
                    Ok(0) => Ok(NextFrame::End),
                    Ok(_) | Err(_) => Err("there is data after the end"),
                }
            }
        }
    }

    fn accept_portion(&mut self, mut portion: Portion) -> Result<Portion, &'static str> {
        let kind = portion.kind;
        if self.last.as_ref().is_some_and(|(last_kind, _)| last_kind.index() > kind.index()) {
            return Err("kinds of rows are out of order");
        }
        check_rows(&portion)?;
        portion.rows_before = self.totals.total(kind).rows;
        self.totals.add_all(kind, &portion.page.rows).ok_or("a row has the wrong kind")?;
        self.portions = self.portions.saturating_add(1);
        self.last = Some((kind, portion.page.position.clone()));
        Ok(portion)
    }
}

/// Size of the length and the checksum of a frame.
const FRAME_OVERHEAD_BYTES: u64 = 36;

/// Checks the rows of tokens: the token index is derived from them, so they must be valid.
pub(super) fn check_rows(portion: &Portion) -> Result<(), &'static str> {
    let is_valid = |it| portion.kind != RowKind::Tokens || token_entries(it).is_some();
    if portion.page.rows.iter().all(is_valid) {
        return Ok(());
    }
    Err("a token's row is invalid")
}

/// Summary of a complete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSummary {
    pub info: ExportInfo,
    /// Number of rows per kind.
    pub counts: Vec<(&'static str, u64)>,
}

impl ExportSummary {
    pub(super) fn from_header(header: &ExportHeader) -> Self {
        let names = RowKind::ALL.iter().map(|it| it.name());
        let counts = names.zip(header.counts.iter().copied()).collect();
        Self { info: header.info.clone(), counts }
    }

    /// Number of rows of this kind.
    pub fn count(&self, kind: RowKind) -> u64 {
        self.counts.get(kind.index()).map_or(0, |it| it.1)
    }

    /// Number of all rows.
    pub fn rows(&self) -> u64 {
        self.counts.iter().fold(0, |sum, it| sum.saturating_add(it.1))
    }
}

/// Reads a file to its end. `report_progress` receives the number of checked rows and the total.
/// Errors: the file cannot be read, or is not an intact export.
pub fn check_export(
    input: impl Read,
    report_progress: impl FnMut(u64, u64),
) -> Result<ExportSummary, TransferError> {
    read_export(input, report_progress, drop)
}

/// As [`check_export`]. `inspect` receives each portion.
pub(super) fn read_export(
    input: impl Read,
    mut report_progress: impl FnMut(u64, u64),
    mut inspect: impl FnMut(Portion),
) -> Result<ExportSummary, TransferError> {
    let mut reader = ExportReader::open(input)?;
    let summary = ExportSummary::from_header(&reader.header);
    while let NextFrame::Portion(portion) = reader.next_checked_frame()? {
        inspect(portion);
        report_progress(reader.totals.row_count(), summary.rows());
    }
    Ok(summary)
}
