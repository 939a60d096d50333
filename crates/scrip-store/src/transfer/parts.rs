//! What stands in the frames of a file: its beginning, portions of rows, and its end.

use crate::transfer::{
    Page, Portion,
    kind::Kind,
    row::{decode, encode, put_bytes, take, take_bytes},
    tally::Total,
};

/// What an export says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The version of the program that made it.
    pub program: String,
    pub engine: String,
    pub schema: u32,
    /// Whatever was acknowledged before is in it.
    pub made_at_unix_ms: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) about: About,
    /// The vault as it was.
    pub(super) standing: [u8; 32],
    /// How many rows there are of each kind.
    pub(super) counts: Vec<u64>,
}

impl Header {
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        put_bytes(&mut body, self.about.program.as_bytes())?;
        put_bytes(&mut body, self.about.engine.as_bytes())?;
        body.extend_from_slice(&self.about.schema.to_be_bytes());
        body.extend_from_slice(&self.about.made_at_unix_ms.to_be_bytes());
        body.extend_from_slice(&self.standing);
        for (kind, count) in Kind::ALL.iter().zip(&self.counts) {
            put_bytes(&mut body, kind.name().as_bytes())?;
            body.extend_from_slice(&count.to_be_bytes());
        }
        Some(body)
    }

    /// Nothing when it is not one of ours, or has other kinds of rows.
    pub(super) fn decode(mut body: &[u8]) -> Option<Self> {
        let from = &mut body;
        let text = |bytes| str::from_utf8(bytes).ok().map(str::to_owned);
        let about = About {
            program: text(take_bytes(from)?)?,
            engine: text(take_bytes(from)?)?,
            schema: u32::from_be_bytes(take(from)?),
            made_at_unix_ms: i64::from_be_bytes(take(from)?),
        };
        let standing = take(from)?;
        let count = |kind: &Kind| {
            let is_it = take_bytes(from)? == kind.name().as_bytes();
            is_it.then_some(u64::from_be_bytes(take(from)?))
        };
        let counts = Kind::ALL.iter().map(count).collect::<Option<Vec<_>>>()?;
        body.is_empty().then_some(Self { about, standing, counts })
    }
}

const PORTION: u8 = 1;
const END: u8 = 2;

/// A frame behind the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Numbered from 1.
    Portion(u64, Portion),
    /// How many portions there were, and what there is of each kind.
    End(u64, Vec<Total>),
}

/// Nothing when a row is not of this kind.
pub(super) fn encode_portion(number: u64, kind: Kind, page: &Page) -> Option<Vec<u8>> {
    let mut body = vec![PORTION];
    body.extend_from_slice(&number.to_be_bytes());
    body.push(u8::try_from(kind.index()).ok()?);
    put_bytes(&mut body, &page.position)?;
    body.extend_from_slice(&u32::try_from(page.rows.len()).ok()?.to_be_bytes());
    for row in &page.rows {
        encode(kind.columns(), row, &mut body)?;
    }
    Some(body)
}

pub(super) fn encode_end(portions: u64, totals: &[Total]) -> Vec<u8> {
    let mut body = vec![END];
    body.extend_from_slice(&portions.to_be_bytes());
    for total in totals {
        body.extend_from_slice(&total.rows.to_be_bytes());
        body.extend_from_slice(&total.sum);
    }
    body
}

/// How many rows of the kind came before is for whoever counts them.
pub(super) fn decode_part(mut body: &[u8]) -> Option<Part> {
    let from = &mut body;
    let [mark] = take(from)?;
    let number = u64::from_be_bytes(take(from)?);
    let part = match mark {
        PORTION => Part::Portion(number, decode_portion(from)?),
        END => {
            let total = |_| {
                let rows = u64::from_be_bytes(take(from)?);
                Some(Total { rows, sum: take(from)? })
            };
            Part::End(number, Kind::ALL.iter().map(total).collect::<Option<_>>()?)
        }
        _ => return None,
    };
    body.is_empty().then_some(part)
}

fn decode_portion(from: &mut &[u8]) -> Option<Portion> {
    let [kind] = take(from)?;
    let kind = Kind::at(usize::from(kind))?;
    let position = take_bytes(from)?.to_owned();
    let count = u32::from_be_bytes(take(from)?);
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push(decode(kind.columns(), from)?);
    }
    let page = Page { rows, position };
    (count > 0).then_some(Portion { kind, before: 0, page })
}
