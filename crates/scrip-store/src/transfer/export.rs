//! A vault into a file, portion by portion. Each is on disk before the next is read, so whoever is
//! broken off goes on behind the last one.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom, Write},
};

use crate::transfer::{
    Bounds, Done, Page, Portion, Rows,
    fault::MoveError,
    file::{About, Contents, MARK, Next, Summary, check_rows, frame, sum_of_mark},
    kind::Kind,
    parts::{Header, encode_end, encode_portion},
    standing::{ANOTHER_KIND, Standing, find, next_page, standing},
    tally::Tallies,
};

/// What an export is made with.
pub struct Exporting<'a> {
    /// The version of this program, and the time.
    pub program: &'a str,
    pub made_at_unix_ms: i64,
    pub bounds: Bounds,
    pub watch: &'a mut dyn FnMut(Done),
}

impl std::fmt::Debug for Exporting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exporting")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    pub summary: Summary,
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
    from: &mut dyn Rows,
    file: &mut File,
    exporting: Exporting<'_>,
) -> Result<Exported, MoveError> {
    from.begin_reading().await?;
    let exported = export_at_once(from, file, exporting).await;
    from.end_reading().await?;
    let (mut draft, before, resumed_rows) = exported?;
    // Until here nothing else could be seen; now it can.
    if standing(from).await? != before {
        return Err(MoveError::Changed);
    }
    let end = encode_end(draft.portions, &draft.tallies.totals());
    draft.append(&end)?;
    let bytes = draft.file.metadata()?.len();
    Ok(Exported { summary: Summary::of(&draft.header), resumed_rows, bytes })
}

async fn export_at_once<'f>(
    from: &mut dyn Rows,
    file: &'f mut File,
    exporting: Exporting<'_>,
) -> Result<(Draft<'f>, Standing, u64), MoveError> {
    let standing = find(from).await?;
    if from.count(Kind::SystemKeys).await? == 0 {
        return Err(MoveError::NoVault);
    }
    let about = About {
        program: exporting.program.to_owned(),
        engine: from.engine().to_owned(),
        schema: from.schema(),
        made_at_unix_ms: exporting.made_at_unix_ms,
    };
    let header = Header { about, standing: standing.sum, counts: standing.counts.clone() };
    let mut draft = Draft::open(file, header)?;
    let resumed = draft.tallies.rows();
    let all = standing.counts.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
    for kind in Kind::ALL {
        let (last, mut after) = draft.last.take().unzip();
        // Whole before it was broken off.
        if last.is_some_and(|it: Kind| it.index() > kind.index()) {
            draft.last = last.zip(after);
            continue;
        }
        while let Some(page) = next_page(from, kind, after.as_deref(), exporting.bounds).await? {
            let page = draft.put(kind, page)?;
            after = Some(page.position);
            (exporting.watch)(Done { rows: draft.tallies.rows(), all });
        }
    }
    if draft.tallies.totals().iter().map(|it| it.rows).ne(standing.counts.iter().copied()) {
        return Err(MoveError::Changed);
    }
    Ok((draft, standing, resumed))
}

/// A file without its end.
struct Draft<'f> {
    file: &'f mut File,
    header: Header,
    sum: [u8; 32],
    portions: u64,
    tallies: Tallies,
    /// Kind and position of the last portion that was there.
    last: Option<(Kind, Vec<u8>)>,
}

impl<'f> Draft<'f> {
    fn open(file: &'f mut File, header: Header) -> Result<Self, MoveError> {
        file.seek(SeekFrom::Start(0))?;
        match Contents::open(BufReader::new(&*file)) {
            Ok(contents) => {
                let (contents, at) = go_through(contents)?;
                if contents.header.standing != header.standing {
                    return Err(MoveError::ChangedBefore);
                }
                let Contents { sum, header, portions, tallies, last, .. } = contents;
                file.set_len(at)?;
                file.seek(SeekFrom::End(0))?;
                Ok(Self { file, header, sum, portions, tallies, last })
            }
            // Broken off before anything was whole.
            Err(MoveError::NoExport | MoveError::Unfinished { .. } | MoveError::Damaged { .. }) => {
                Self::begin(file, header)
            }
            Err(error) => Err(error),
        }
    }

    fn begin(file: &'f mut File, header: Header) -> Result<Self, MoveError> {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&MARK)?;
        let body = header.encode().ok_or(ANOTHER_KIND)?;
        let (tallies, last) = (Tallies::default(), None);
        let mut draft = Self { file, header, sum: sum_of_mark(), portions: 0, tallies, last };
        draft.append(&body)?;
        Ok(draft)
    }

    /// On disk when this is over.
    fn append(&mut self, body: &[u8]) -> Result<(), MoveError> {
        let (bytes, sum) = frame(self.sum, body)?;
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        self.sum = sum;
        Ok(())
    }

    fn put(&mut self, kind: Kind, page: Page) -> Result<Page, MoveError> {
        let portion = Portion { kind, before: 0, page };
        check_rows(&portion).map_err(scrip_core::store::StoreError::Corrupt)?;
        let number = self.portions.saturating_add(1);
        let body = encode_portion(number, kind, &portion.page).ok_or(ANOTHER_KIND)?;
        self.tallies.add_all(kind, &portion.page.rows).ok_or(ANOTHER_KIND)?;
        self.append(&body)?;
        self.portions = number;
        Ok(portion.page)
    }
}

/// To where it is whole, which is before the end if it has one.
fn go_through<R: std::io::Read>(
    mut contents: Contents<R>,
) -> Result<(Contents<R>, u64), MoveError> {
    loop {
        let (at, sum) = (contents.at, contents.sum);
        let body = match contents.next_frame() {
            Ok(body) => body,
            Err(MoveError::Unfinished { .. } | MoveError::Damaged { .. }) => {
                return Ok((contents, at));
            }
            Err(error) => return Err(error),
        };
        match contents.take(&body).map_err(|what| MoveError::Damaged { at, what })? {
            Next::Portion(_) => (),
            Next::End => {
                contents.sum = sum;
                return Ok((contents, at));
            }
        }
    }
}
