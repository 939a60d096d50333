//! The file of an export: a mark, and frames behind it. A frame has its length, its bytes, and the
//! checksum of both with the checksum of the frame before. So no frame can be changed, left out,
//! doubled or moved, and what was cut off has no end.

use std::io::{self, ErrorKind, Read};

use scrip_seal::Checksum;

use crate::transfer::{
    Portion,
    fault::MoveError,
    kind::Kind,
    parts::{Header, Part, decode_part},
    tally::Tallies,
    token::entries,
};

pub use crate::transfer::parts::About;

/// Its number rises when older programs could not read what follows from it.
pub(super) const MARK: [u8; 16] = *b"\nscrip export 1\n";

/// No portion comes near it.
const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;

/// The checksum before the first frame.
pub(super) fn sum_of_mark() -> [u8; 32] {
    let mut sum = Checksum::new();
    sum.add(&MARK);
    sum.finish()
}

/// A frame with its checksum, which is also given apart.
pub(super) fn frame(before: [u8; 32], body: &[u8]) -> io::Result<(Vec<u8>, [u8; 32])> {
    let length = u32::try_from(body.len()).ok().filter(|it| *it <= FRAME_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other("a portion is too long"))?.to_be_bytes();
    let sum = sum_of(before, length, body);
    Ok(([&length, body, &sum].concat(), sum))
}

fn sum_of(before: [u8; 32], length: [u8; 4], body: &[u8]) -> [u8; 32] {
    let mut sum = Checksum::new();
    sum.add(&before);
    sum.add(&length);
    sum.add(body);
    sum.finish()
}

/// A file that is read from its beginning. Nothing is believed that was not checked.
#[derive(Debug)]
pub(super) struct Contents<R> {
    from: R,
    /// Behind the last whole frame.
    pub(super) at: u64,
    pub(super) sum: [u8; 32],
    pub(super) header: Header,
    /// By which this file is known.
    pub(super) beginning: [u8; 32],
    pub(super) portions: u64,
    pub(super) tallies: Tallies,
    /// Of the last portion.
    pub(super) last: Option<(Kind, Vec<u8>)>,
}

/// What the next frame is, once it was checked.
#[derive(Debug)]
pub(super) enum Next {
    Portion(Portion),
    End,
}

impl<R: Read> Contents<R> {
    pub(super) fn open(mut from: R) -> Result<Self, MoveError> {
        let mut mark = [0; MARK.len()];
        match from.read_exact(&mut mark) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(MoveError::NoExport);
            }
            read => read?,
        }
        if mark != MARK {
            return Err(MoveError::NoExport);
        }
        let mut contents = Self {
            from,
            at: u64::try_from(MARK.len()).unwrap_or_default(),
            sum: sum_of_mark(),
            header: Header::default(),
            beginning: [0; 32],
            portions: 0,
            tallies: Tallies::default(),
            last: None,
        };
        let body = contents.next_frame()?;
        contents.header = Header::decode(&body).ok_or(MoveError::NoExport)?;
        contents.beginning = contents.sum;
        Ok(contents)
    }

    pub(super) fn next(&mut self) -> Result<Next, MoveError> {
        let at = self.at;
        let body = self.next_frame()?;
        self.take(&body).map_err(|what| MoveError::Damaged { at, what })
    }

    /// The next whole frame, or nothing has changed.
    pub(super) fn next_frame(&mut self) -> Result<Vec<u8>, MoveError> {
        let at = self.at;
        let damaged = |what| MoveError::Damaged { at, what };
        let mut length = [0; 4];
        self.fill(&mut length)?;
        let count = u32::from_be_bytes(length);
        if count > FRAME_BYTES_MAX {
            return Err(damaged("no portion is that long"));
        }
        // As much as there is, whatever the length says.
        let mut body = Vec::new();
        self.from.by_ref().take(u64::from(count)).read_to_end(&mut body)?;
        if u32::try_from(body.len()) != Ok(count) {
            return Err(MoveError::Unfinished { at });
        }
        let mut written = [0; 32];
        self.fill(&mut written)?;
        let sum = sum_of(self.sum, length, &body);
        if sum != written {
            return Err(damaged("its checksum is another"));
        }
        self.sum = sum;
        self.at = at.saturating_add(u64::from(count)).saturating_add(FRAME_BYTES);
        Ok(body)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), MoveError> {
        match self.from.read_exact(bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(MoveError::Unfinished { at: self.at })
            }
            read => Ok(read?),
        }
    }

    /// Whether a frame belongs where it stands; what is wrong with it, if not.
    pub(super) fn take(&mut self, body: &[u8]) -> Result<Next, &'static str> {
        match decode_part(body).ok_or("it is not what this program writes")? {
            Part::Portion(number, portion) => {
                if number != self.portions.saturating_add(1) {
                    return Err("a portion is out of order");
                }
                self.take_portion(portion).map(Next::Portion)
            }
            Part::End(portions, totals) => {
                if portions != self.portions || totals != self.tallies.totals() {
                    return Err("its end speaks of other rows");
                }
                let counts: Vec<_> = totals.iter().map(|it| it.rows).collect();
                if counts != self.header.counts {
                    return Err("its beginning speaks of other rows");
                }
                match self.from.read(&mut [0]) {
                    Ok(0) => Ok(Next::End),
                    Ok(_) | Err(_) => Err("there is something behind its end"),
                }
            }
        }
    }

    fn take_portion(&mut self, mut portion: Portion) -> Result<Portion, &'static str> {
        let kind = portion.kind;
        if self.last.as_ref().is_some_and(|(last, _)| last.index() > kind.index()) {
            return Err("kinds of rows are out of order");
        }
        check_rows(&portion)?;
        portion.before = self.tallies.of(kind).rows;
        self.tallies.add_all(kind, &portion.page.rows).ok_or("a row is of another kind")?;
        self.portions = self.portions.saturating_add(1);
        self.last = Some((kind, portion.page.position.clone()));
        Ok(portion)
    }
}

/// The length and the checksum.
const FRAME_BYTES: u64 = 36;

/// Tokens are found by what follows from their rows.
pub(super) fn check_rows(portion: &Portion) -> Result<(), &'static str> {
    let is_ours = |it| portion.kind != Kind::Tokens || entries(it).is_some();
    if portion.page.rows.iter().all(is_ours) {
        return Ok(());
    }
    Err("a token's row is not one of ours")
}

/// What a file that was read to its end has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub about: About,
    /// How many rows there are of each kind.
    pub counts: Vec<(&'static str, u64)>,
}

impl Summary {
    pub(super) fn of(header: &Header) -> Self {
        let names = Kind::ALL.iter().map(|it| it.name());
        let counts = names.zip(header.counts.iter().copied()).collect();
        Self { about: header.about.clone(), counts }
    }

    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
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
pub fn check(from: impl Read, mut watch: impl FnMut(u64, u64)) -> Result<Summary, MoveError> {
    let mut contents = Contents::open(from)?;
    let summary = Summary::of(&contents.header);
    while let Next::Portion(_) = contents.next()? {
        watch(contents.tallies.rows(), summary.rows());
    }
    Ok(summary)
}
