//! A file into an empty vault, portion by portion, each in one transaction with how far it is; and
//! at the end all of it is read back.

use std::{
    fs::File,
    io::{BufReader, Seek, SeekFrom},
};

use crate::transfer::{
    Bounds, Done, Page, Portion, Rows, State,
    fault::MoveError,
    file::{Contents, Next, Summary, check},
    kind::Kind,
    standing::{ANOTHER_KIND, counts, next_page},
    tally::{Tallies, Total},
    token::entries,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    pub summary: Summary,
    /// How many rows were in already.
    pub resumed_rows: u64,
}

/// Which part of an import goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Writing,
    /// The vault is read, and compared.
    ReadingBack,
}

/// A file that was read to its end, and is as it was written.
#[derive(Debug)]
pub struct Whole {
    file: File,
    pub summary: Summary,
}

impl Whole {
    /// `watch` hears how many rows are behind, and of how many.
    ///
    /// # Errors
    /// It cannot be read, or is not an export as one was written.
    pub fn check(mut file: File, watch: impl FnMut(u64, u64)) -> Result<Self, MoveError> {
        file.seek(SeekFrom::Start(0))?;
        let summary = check(BufReader::new(&file), watch)?;
        Ok(Self { file, summary })
    }
}

/// Writes a file into a vault that is empty, or has what another run of the same file wrote before
/// it was broken off.
///
/// # Errors
/// The vault or the file cannot be used, the vault is another's, or it does not have afterwards what
/// the file has, and cannot be served.
pub async fn import(
    to: &mut dyn Rows,
    whole: Whole,
    watch: &mut dyn FnMut(Step, Done),
) -> Result<Imported, MoveError> {
    let Whole { mut file, summary } = whole;
    file.seek(SeekFrom::Start(0))?;
    let mut contents = Contents::open(BufReader::new(&file))?;
    let state = begun(to, contents.beginning).await?;
    let all = summary.rows();
    let mut resumed_rows = 0;
    let mut keys = Vec::new();
    while let Next::Portion(portion) = contents.next()? {
        if portion.kind == Kind::SystemKeys {
            // When everything else is in.
            keys.extend(portion.page.rows);
        } else if contents.portions > state.portions {
            let (portions, sum) = (contents.portions, contents.sum);
            to.put(&portion, State { portions, sum, ..state }).await?;
            watch(Step::Writing, Done { rows: contents.tallies.rows(), all });
        } else {
            resumed_rows = contents.tallies.rows();
            if contents.portions == state.portions && contents.sum != state.sum {
                return Err(MoveError::AnotherFile);
            }
        }
    }
    to.begin_reading().await?;
    let same = compare(to, &contents.tallies, watch).await;
    to.end_reading().await?;
    same?;
    let page = Page { rows: keys, position: Vec::new() };
    to.finish(&Portion { kind: Kind::SystemKeys, before: 0, page }).await?;
    Ok(Imported { summary, resumed_rows })
}

async fn begun(to: &mut dyn Rows, file: [u8; 32]) -> Result<State, MoveError> {
    match to.begun().await? {
        Some(state) if state.file == file => Ok(state),
        Some(_) => Err(MoveError::AnotherFile),
        None => {
            to.begin_reading().await?;
            let counts = counts(to).await;
            to.end_reading().await?;
            let counts = counts?;
            let mut there = Kind::ALL.iter().zip(counts).filter(|(_, count)| *count > 0);
            if there.any(|(kind, _)| !kind.is_single()) {
                return Err(MoveError::NotEmpty);
            }
            let state = State { file, portions: 0, sum: file };
            to.begin(state).await?;
            Ok(state)
        }
    }
}

/// Whether the vault has what the file has, but for the keys.
async fn compare(
    to: &mut dyn Rows,
    expected: &Tallies,
    watch: &mut dyn FnMut(Step, Done),
) -> Result<(), MoveError> {
    let all = expected.rows();
    let mut read = Tallies::default();
    let mut entries_max = 0_u64;
    for kind in Kind::ALL {
        let mut after = None;
        while let Some(page) = next_page(to, kind, after.as_deref(), Bounds::default()).await? {
            read.add_all(kind, &page.rows).ok_or(ANOTHER_KIND)?;
            let of_tokens = page.rows.iter().filter(|_| kind == Kind::Tokens);
            let entries = of_tokens.filter_map(entries).map(|it| it.all.len());
            let entries = entries.fold(0, usize::saturating_add);
            entries_max = entries_max.saturating_add(u64::try_from(entries).unwrap_or(u64::MAX));
            after = Some(page.position);
            watch(Step::ReadingBack, Done { rows: read.rows(), all });
        }
        let expected = if kind == Kind::SystemKeys { Total::default() } else { expected.of(kind) };
        if read.of(kind) != expected {
            return Err(MoveError::Differs { kind: kind.name() });
        }
    }
    if to.count_entries().await? != entries_max {
        return Err(MoveError::Differs { kind: "entries by which tokens are found" });
    }
    Ok(())
}

impl Portion {
    /// The numbers of tokens: where they stand among all.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = i64> + use<> {
        i64::try_from(self.before).unwrap_or(i64::MAX).saturating_add(1)..
    }
}
