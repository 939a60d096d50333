//! The file with imported BIN data: a command writes it, and a server takes it over.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use scrip_core::card::bin_data::{BinData, BinTable};

use crate::{
    background::delayed_interval,
    files::{atomic_file, stamp::FileStamp},
};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// More than a table of [`BinTable::ROWS_MAX`] rows can have.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Nothing when there is none.
///
/// # Errors
/// It cannot be read, or is damaged.
pub fn read(path: &Path) -> anyhow::Result<Option<BinTable>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("it cannot be opened"),
    };
    // As large as it is going to be: growing would take, and keep, several times that.
    let len = file.metadata().map_or(0, |it| it.len().min(BYTES_MAX));
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    file.take(BYTES_MAX).read_to_end(&mut bytes).context("it cannot be read")?;
    Ok(Some(BinTable::from_bytes(&bytes)?))
}

/// Whole or not at all, and on the disk before it has its name.
///
/// # Errors
/// The directory cannot be written.
pub fn write(path: &Path, table: &BinTable) -> anyhow::Result<()> {
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = atomic_file::replace(path, &draft, |file| file.write_all(&table.to_bytes()));
    written.with_context(|| format!("{} cannot be written", path.display()))
}

/// Takes over the file if it is another than was seen; what is there now. One that is damaged is told
/// of once, and what was known before stays.
pub fn reload_if_changed(
    path: &Path,
    bins: &BinData,
    last_stamp: Option<FileStamp>,
) -> Option<FileStamp> {
    let now = FileStamp::for_path(path);
    if now == last_stamp {
        return last_stamp;
    }
    match read(path) {
        Ok(Some(table)) => {
            tracing::info!(
                rows = table.row_count(),
                bytes = table.memory_bytes(),
                "BIN data is taken over"
            );
            bins.replace_imported(Some(table));
        }
        Ok(None) => {
            tracing::info!("BIN data is gone; the built-in ranges remain");
            bins.replace_imported(None);
        }
        Err(error) => {
            let cause = format!("{error:#}");
            tracing::error!(cause, "BIN data is refused; what was known before stays");
        }
    }
    now
}

/// Looks every second, for as long as the server runs.
pub async fn reload_periodically(
    path: PathBuf,
    bins: Arc<BinData>,
    mut last_stamp: Option<FileStamp>,
) {
    let mut ticks = delayed_interval(POLL_EVERY);
    loop {
        ticks.tick().await;
        if FileStamp::for_path(&path) == last_stamp {
            continue;
        }
        // Megabytes are read on a thread where nobody waits for an answer.
        let (path, bins) = (path.clone(), Arc::clone(&bins));
        match tokio::task::spawn_blocking(move || reload_if_changed(&path, &bins, last_stamp)).await
        {
            Ok(now) => last_stamp = now,
            Err(_) => tracing::error!("taking over BIN data ended by a panic"),
        }
    }
}
