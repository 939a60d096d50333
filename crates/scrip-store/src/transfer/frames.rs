//! The frames of an export file: header, portions of rows, and end.

use scrip_core::policy::entity::RowValue;

use crate::transfer::{
    Portion, RowPage,
    format::FileFormat,
    kind::RowKind,
    row::{decode_row, encode_row, put_bytes, take_array, take_bytes},
    totals::RowTotal,
};

/// General information about an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportInfo {
    /// The version of the program that created the export.
    pub program: String,
    pub engine: String,
    pub schema: u32,
    /// The export contains every write that was acknowledged before this time.
    pub created_at_unix_ms: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExportHeader {
    pub(super) info: ExportInfo,
    /// Digest of the exported vault.
    pub(super) vault_checksum: [u8; 32],
    /// Number of rows per kind.
    pub(super) counts: Vec<u64>,
}

impl ExportHeader {
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        put_bytes(&mut body, self.info.program.as_bytes())?;
        put_bytes(&mut body, self.info.engine.as_bytes())?;
        body.extend_from_slice(&self.info.schema.to_be_bytes());
        body.extend_from_slice(&self.info.created_at_unix_ms.to_be_bytes());
        body.extend_from_slice(&self.vault_checksum);
        let counts = RowKind::ALL.into_iter().zip(&self.counts);
        for (kind, count) in counts.filter(|(kind, _)| FileFormat::NEWEST.has_kind(*kind)) {
            put_bytes(&mut body, kind.name().as_bytes())?;
            body.extend_from_slice(&count.to_be_bytes());
        }
        Some(body)
    }

    /// Returns `None` if the body is not a valid header or has other kinds of rows.
    pub(super) fn decode(format: FileFormat, mut body: &[u8]) -> Option<Self> {
        let input = &mut body;
        let to_text = |bytes| str::from_utf8(bytes).ok().map(str::to_owned);
        let info = ExportInfo {
            program: to_text(take_bytes(input)?)?,
            engine: to_text(take_bytes(input)?)?,
            schema: u32::from_be_bytes(take_array(input)?),
            created_at_unix_ms: i64::from_be_bytes(take_array(input)?),
        };
        let vault_checksum = take_array(input)?;
        let read_count = |kind: &RowKind| {
            if !format.has_kind(*kind) {
                return Some(0);
            }
            let is_same_kind = take_bytes(input)? == kind.name().as_bytes();
            is_same_kind.then_some(u64::from_be_bytes(take_array(input)?))
        };
        let counts = RowKind::ALL.iter().map(read_count).collect::<Option<Vec<_>>>()?;
        body.is_empty().then_some(Self { info, vault_checksum, counts })
    }
}

const PORTION_TAG: u8 = 1;
const END_TAG: u8 = 2;

/// The maximum number of rows in a portion, far above that of any export. A row needs more memory
/// than its bytes in the file.
const PORTION_ROWS_MAX: u32 = 65_536;

/// A frame after the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameBody {
    /// Numbered from 1.
    Portion(u64, Portion),
    /// The number of portions, and the totals of each kind.
    End(u64, Vec<RowTotal>),
}

/// Encodes a portion. Returns `None` if a row does not match the kind, or there are too many rows.
pub(super) fn encode_portion(number: u64, kind: RowKind, page: &RowPage) -> Option<Vec<u8>> {
    let mut body = vec![PORTION_TAG];
    body.extend_from_slice(&number.to_be_bytes());
    body.push(FileFormat::NEWEST.position(kind)?);
    put_bytes(&mut body, &page.position)?;
    let count = u32::try_from(page.rows.len()).ok().filter(|it| *it <= PORTION_ROWS_MAX)?;
    body.extend_from_slice(&count.to_be_bytes());
    for row in &page.rows {
        encode_row(kind.columns(), row, &mut body)?;
    }
    Some(body)
}

pub(super) fn encode_end(portions: u64, totals: &[RowTotal]) -> Vec<u8> {
    let mut body = vec![END_TAG];
    body.extend_from_slice(&portions.to_be_bytes());
    let totals = RowKind::ALL.into_iter().zip(totals);
    for (_, total) in totals.filter(|(kind, _)| FileFormat::NEWEST.has_kind(*kind)) {
        body.extend_from_slice(&total.rows.to_be_bytes());
        body.extend_from_slice(&total.checksum);
    }
    body
}

/// Decodes a frame after the header; `None` if it is invalid. The caller, which counts the rows,
/// sets `rows_before`.
pub(super) fn decode_frame_body(format: FileFormat, mut body: &[u8]) -> Option<FrameBody> {
    let input = &mut body;
    let [tag] = take_array(input)?;
    let number = u64::from_be_bytes(take_array(input)?);
    let frame = match tag {
        PORTION_TAG => FrameBody::Portion(number, decode_portion(format, input)?),
        END_TAG => {
            let read_total = |kind: &RowKind| {
                if !format.has_kind(*kind) {
                    return Some(RowTotal::default());
                }
                let rows = u64::from_be_bytes(take_array(input)?);
                Some(RowTotal { rows, checksum: take_array(input)? })
            };
            FrameBody::End(number, RowKind::ALL.iter().map(read_total).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    body.is_empty().then_some(frame)
}

fn decode_portion(format: FileFormat, input: &mut &[u8]) -> Option<Portion> {
    let [kind] = take_array(input)?;
    let kind = format.kinds().nth(usize::from(kind))?;
    let position = take_bytes(input)?.to_owned();
    let count = u32::from_be_bytes(take_array(input)?);
    if count > PORTION_ROWS_MAX {
        return None;
    }
    let mut rows = Vec::new();
    for _ in 0..count {
        let mut row = decode_row(format.columns(kind), input)?;
        row.resize(kind.columns().len(), RowValue::Null);
        rows.push(row);
    }
    let page = RowPage { rows, position };
    (count > 0).then_some(Portion { kind, rows_before: 0, page })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portion_with_too_many_small_rows_is_not_decoded() {
        let decode = |count: u32| {
            let mut body = vec![PORTION_TAG];
            body.extend(1_u64.to_be_bytes());
            body.push(FileFormat::NEWEST.position(RowKind::DirectoryVersion).unwrap());
            put_bytes(&mut body, b"").unwrap();
            body.extend(count.to_be_bytes());
            body.resize(body.len() + 8 * usize::try_from(count).unwrap(), 0);
            decode_frame_body(FileFormat::NEWEST, &body).is_some()
        };
        assert!(decode(65_536));
        assert!(!decode(65_537));
    }
}
