//! The file with imported BIN data: a command writes it, and servers load it.

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
    files::{FileStamp, atomic_file},
    periodic_tasks::delayed_interval,
};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// More than the size of a table with [`BinTable::ROWS_MAX`] rows.
const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Reads the table. Returns `None` if the file does not exist.
/// Errors: the file cannot be read or is damaged.
pub fn read(path: &Path) -> anyhow::Result<Option<BinTable>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("the file cannot be opened"),
    };
    // Allocate the full size: a growing buffer would use several times the memory.
    let len = file.metadata().map_or(0, |it| it.len().min(BYTES_MAX));
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    file.take(BYTES_MAX).read_to_end(&mut bytes).context("the file cannot be read")?;
    Ok(Some(BinTable::from_bytes(&bytes)?))
}

/// Writes the file atomically and syncs it.
/// Errors: the directory cannot be written.
pub fn write(path: &Path, table: &BinTable) -> anyhow::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let result = atomic_file::replace(path, &temporary, |file| file.write_all(&table.to_bytes()));
    result.with_context(|| format!("{} cannot be written", path.display()))
}

/// Loads the file if its stamp changed, and returns the current stamp. A damaged file is logged
/// once, and the loaded table stays in force.
pub fn reload_if_changed(
    path: &Path,
    bins: &BinData,
    last_stamp: Option<FileStamp>,
) -> Option<FileStamp> {
    let stamp = FileStamp::for_path(path);
    if stamp == last_stamp {
        return last_stamp;
    }
    match read(path) {
        Ok(Some(table)) => {
            tracing::info!(
                rows = table.row_count(),
                bytes = table.memory_bytes(),
                "loaded BIN data"
            );
            bins.replace_imported(Some(table));
        }
        Ok(None) => {
            tracing::info!("BIN data was removed; using the built-in ranges");
            bins.replace_imported(None);
        }
        Err(error) => {
            let cause = format!("{error:#}");
            tracing::error!(
                cause,
                "loading BIN data failed; the previous table stays in force; import the list again"
            );
        }
    }
    stamp
}

/// Checks the file every second until the server stops.
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
        // Read megabytes on a thread that serves no request.
        let (path, bins) = (path.clone(), Arc::clone(&bins));
        match tokio::task::spawn_blocking(move || reload_if_changed(&path, &bins, last_stamp)).await
        {
            Ok(stamp) => last_stamp = stamp,
            Err(_) => tracing::error!("loading BIN data panicked"),
        }
    }
}
