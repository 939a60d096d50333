//! What stands in the frames of a file: its beginning, portions of rows, and its end.

use crate::transfer::{
    Portion, RowPage,
    kind::RowKind,
    row::{decode_row, encode_row, put_bytes, take_array, take_bytes},
    totals::RowTotal,
};

/// What an export says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportInfo {
    /// The version of the program that made it.
    pub program: String,
    pub engine: String,
    pub schema: u32,
    /// Whatever was acknowledged before is in it.
    pub created_at_unix_ms: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExportHeader {
    pub(super) info: ExportInfo,
    /// The vault as it was.
    pub(super) vault_checksum: [u8; 32],
    /// How many rows there are of each kind.
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
        for (kind, count) in RowKind::ALL.iter().zip(&self.counts) {
            put_bytes(&mut body, kind.name().as_bytes())?;
            body.extend_from_slice(&count.to_be_bytes());
        }
        Some(body)
    }

    /// Nothing when it is not one of ours, or has other kinds of rows.
    pub(super) fn decode(mut body: &[u8]) -> Option<Self> {
        let from = &mut body;
        let text = |bytes| str::from_utf8(bytes).ok().map(str::to_owned);
        let about = ExportInfo {
            program: text(take_bytes(from)?)?,
            engine: text(take_bytes(from)?)?,
            schema: u32::from_be_bytes(take_array(from)?),
            created_at_unix_ms: i64::from_be_bytes(take_array(from)?),
        };
        let standing = take_array(from)?;
        let count = |kind: &RowKind| {
            let is_it = take_bytes(from)? == kind.name().as_bytes();
            is_it.then_some(u64::from_be_bytes(take_array(from)?))
        };
        let counts = RowKind::ALL.iter().map(count).collect::<Option<Vec<_>>>()?;
        body.is_empty().then_some(Self { info: about, vault_checksum: standing, counts })
    }
}

const PORTION_TAG: u8 = 1;
const END_TAG: u8 = 2;

/// A frame behind the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FrameBody {
    /// Numbered from 1.
    Portion(u64, Portion),
    /// How many portions there were, and what there is of each kind.
    End(u64, Vec<RowTotal>),
}

/// Nothing when a row is not of this kind.
pub(super) fn encode_portion(number: u64, kind: RowKind, page: &RowPage) -> Option<Vec<u8>> {
    let mut body = vec![PORTION_TAG];
    body.extend_from_slice(&number.to_be_bytes());
    body.push(u8::try_from(kind.index()).ok()?);
    put_bytes(&mut body, &page.position)?;
    body.extend_from_slice(&u32::try_from(page.rows.len()).ok()?.to_be_bytes());
    for row in &page.rows {
        encode_row(kind.columns(), row, &mut body)?;
    }
    Some(body)
}

pub(super) fn encode_end(portions: u64, totals: &[RowTotal]) -> Vec<u8> {
    let mut body = vec![END_TAG];
    body.extend_from_slice(&portions.to_be_bytes());
    for total in totals {
        body.extend_from_slice(&total.rows.to_be_bytes());
        body.extend_from_slice(&total.checksum);
    }
    body
}

/// How many rows of the kind came before is for whoever counts them.
pub(super) fn decode_frame_body(mut body: &[u8]) -> Option<FrameBody> {
    let from = &mut body;
    let [mark] = take_array(from)?;
    let number = u64::from_be_bytes(take_array(from)?);
    let part = match mark {
        PORTION_TAG => FrameBody::Portion(number, decode_portion(from)?),
        END_TAG => {
            let total = |_| {
                let rows = u64::from_be_bytes(take_array(from)?);
                Some(RowTotal { rows, checksum: take_array(from)? })
            };
            FrameBody::End(number, RowKind::ALL.iter().map(total).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    body.is_empty().then_some(part)
}

fn decode_portion(from: &mut &[u8]) -> Option<Portion> {
    let [kind] = take_array(from)?;
    let kind = RowKind::from_index(usize::from(kind))?;
    let position = take_bytes(from)?.to_owned();
    let count = u32::from_be_bytes(take_array(from)?);
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push(decode_row(kind.columns(), from)?);
    }
    let page = RowPage { rows, position };
    (count > 0).then_some(Portion { kind, rows_before: 0, page })
}
