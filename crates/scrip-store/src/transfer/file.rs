//! The file of an export: a mark, and frames behind it. A frame has its length, its bytes, and the
//! checksum of both with the checksum of the frame before. So no frame can be changed, left out,
//! doubled or moved, and what was cut off has no end.

use std::io::{self, ErrorKind, Read};

use scrip_seal::Checksum;

use crate::transfer::{
    Portion,
    error::TransferError,
    frames::{ExportHeader, FrameBody, decode_frame_body},
    kind::RowKind,
    token::token_entries,
    totals::ExportTotals,
};

pub use crate::transfer::frames::ExportInfo;

/// Its number rises when older programs could not read what follows from it.
pub(super) const MAGIC: [u8; 16] = *b"\nscrip export 1\n";

/// No portion comes near it.
const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;

/// The checksum before the first frame.
pub(super) fn magic_checksum() -> [u8; 32] {
    let mut sum = Checksum::new();
    sum.add(&MAGIC);
    sum.finish()
}

/// A frame with its checksum, which is also given apart.
pub(super) fn encode_frame(previous: [u8; 32], body: &[u8]) -> io::Result<(Vec<u8>, [u8; 32])> {
    let length = u32::try_from(body.len()).ok().filter(|it| *it <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a portion is too long"))?.to_be_bytes();
    let sum = frame_checksum(previous, length, body);
    Ok(([&length, body, &sum].concat(), sum))
}

fn frame_checksum(previous: [u8; 32], length: [u8; 4], body: &[u8]) -> [u8; 32] {
    let mut sum = Checksum::new();
    sum.add(&previous);
    sum.add(&length);
    sum.add(body);
    sum.finish()
}

/// A file that is read from its beginning. Nothing is believed that was not checked.
#[derive(Debug)]
pub(super) struct ExportReader<R> {
    input: R,
    /// Behind the last whole frame.
    pub(super) offset: u64,
    pub(super) checksum: [u8; 32],
    pub(super) header: ExportHeader,
    /// By which this file is known.
    pub(super) header_checksum: [u8; 32],
    pub(super) portions: u64,
    pub(super) totals: ExportTotals,
    /// Of the last portion.
    pub(super) last: Option<(RowKind, Vec<u8>)>,
}

/// What the next frame is, once it was checked.
#[derive(Debug)]
pub(super) enum NextFrame {
    Portion(Portion),
    End,
}

impl<R: Read> ExportReader<R> {
    pub(super) fn open(mut from: R) -> Result<Self, TransferError> {
        let mut mark = [0; MAGIC.len()];
        match from.read_exact(&mut mark) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(TransferError::NotAnExport);
            }
            read => read?,
        }
        if mark != MAGIC {
            return Err(TransferError::NotAnExport);
        }
        let mut contents = Self {
            input: from,
            offset: u64::try_from(MAGIC.len()).unwrap_or_default(),
            checksum: magic_checksum(),
            header: ExportHeader::default(),
            header_checksum: [0; 32],
            portions: 0,
            totals: ExportTotals::default(),
            last: None,
        };
        let body = contents.next_frame()?;
        contents.header = ExportHeader::decode(&body).ok_or(TransferError::NotAnExport)?;
        contents.header_checksum = contents.checksum;
        Ok(contents)
    }

    pub(super) fn next_checked_frame(&mut self) -> Result<NextFrame, TransferError> {
        let at = self.offset;
        let body = self.next_frame()?;
        self.accept_frame(&body).map_err(|what| TransferError::Damaged { offset: at, reason: what })
    }

    /// The next whole frame, or nothing has changed.
    pub(super) fn next_frame(&mut self) -> Result<Vec<u8>, TransferError> {
        let at = self.offset;
        let damaged = |what| TransferError::Damaged { offset: at, reason: what };
        let mut length = [0; 4];
        self.read_exact(&mut length)?;
        let count = u32::from_be_bytes(length);
        if count > FRAME_BYTES_MAX {
            return Err(damaged("no portion is that long"));
        }
        // As much as there is, whatever the length says.
        let mut body = Vec::new();
        self.input.by_ref().take(u64::from(count)).read_to_end(&mut body)?;
        if u32::try_from(body.len()) != Ok(count) {
            return Err(TransferError::Unfinished { offset: at });
        }
        let mut written = [0; 32];
        self.read_exact(&mut written)?;
        let sum = frame_checksum(self.checksum, length, &body);
        if sum != written {
            return Err(damaged("its checksum is another"));
        }
        self.checksum = sum;
        self.offset = at.saturating_add(u64::from(count)).saturating_add(FRAME_OVERHEAD_BYTES);
        Ok(body)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), TransferError> {
        match self.input.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(TransferError::Unfinished { offset: self.offset })
            }
            read => Ok(read?),
        }
    }

    /// Whether a frame belongs where it stands; what is wrong with it, if not.
    pub(super) fn accept_frame(&mut self, body: &[u8]) -> Result<NextFrame, &'static str> {
        match decode_frame_body(body).ok_or("it is not what this program writes")? {
            FrameBody::Portion(number, portion) => {
                if number != self.portions.saturating_add(1) {
                    return Err("a portion is out of order");
                }
                self.accept_portion(portion).map(NextFrame::Portion)
            }
            FrameBody::End(portions, totals) => {
                if portions != self.portions || totals != self.totals.totals() {
                    return Err("its end speaks of other rows");
                }
                let counts: Vec<_> = totals.iter().map(|it| it.rows).collect();
                if counts != self.header.counts {
                    return Err("its beginning speaks of other rows");
                }
                match self.input.read(&mut [0]) {
                    Ok(0) => Ok(NextFrame::End),
                    Ok(_) | Err(_) => Err("there is something behind its end"),
                }
            }
        }
    }

    fn accept_portion(&mut self, mut portion: Portion) -> Result<Portion, &'static str> {
        let kind = portion.kind;
        if self.last.as_ref().is_some_and(|(last, _)| last.index() > kind.index()) {
            return Err("kinds of rows are out of order");
        }
        check_rows(&portion)?;
        portion.rows_before = self.totals.total(kind).rows;
        self.totals.add_all(kind, &portion.page.rows).ok_or("a row is of another kind")?;
        self.portions = self.portions.saturating_add(1);
        self.last = Some((kind, portion.page.position.clone()));
        Ok(portion)
    }
}

/// The length and the checksum.
const FRAME_OVERHEAD_BYTES: u64 = 36;

/// Tokens are found by what follows from their rows.
pub(super) fn check_rows(portion: &Portion) -> Result<(), &'static str> {
    let is_ours = |it| portion.kind != RowKind::Tokens || token_entries(it).is_some();
    if portion.page.rows.iter().all(is_ours) {
        return Ok(());
    }
    Err("a token's row is not one of ours")
}

/// What a file that was read to its end has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportSummary {
    pub info: ExportInfo,
    /// How many rows there are of each kind.
    pub counts: Vec<(&'static str, u64)>,
}

impl ExportSummary {
    pub(super) fn from_header(header: &ExportHeader) -> Self {
        let names = RowKind::ALL.iter().map(|it| it.name());
        let counts = names.zip(header.counts.iter().copied()).collect();
        Self { info: header.info.clone(), counts }
    }

    #[must_use]
    pub fn count(&self, kind: RowKind) -> u64 {
        self.counts.get(kind.index()).map_or(0, |it| it.1)
    }

    #[must_use]
    pub fn rows(&self) -> u64 {
        self.counts.iter().fold(0, |sum, it| sum.saturating_add(it.1))
    }
}

/// Reads a file to its end. `watch` hears how many rows are behind, and of how many.
///
/// # Errors
/// It cannot be read, or is not an export as one was written.
pub fn check_export(
    from: impl Read,
    mut report_progress: impl FnMut(u64, u64),
) -> Result<ExportSummary, TransferError> {
    let mut contents = ExportReader::open(from)?;
    let summary = ExportSummary::from_header(&contents.header);
    while let NextFrame::Portion(_) = contents.next_checked_frame()? {
        report_progress(contents.totals.row_count(), summary.rows());
    }
    Ok(summary)
}
