//! Process metrics from the kernel. On systems other than Linux there are none.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use crate::metrics::{page::MetricsPage, table};

pub(super) fn write_process_metrics(page: &mut MetricsPage) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let read_bytes = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    // The read directory itself is one of the descriptors.
    let open_files = fs::read_dir("/proc/self/fd").ok().map(|it| it.count().saturating_sub(1));
    let open_files = open_files.and_then(|it| u64::try_from(it).ok());
    let open_files_max = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
    let samples = [
        (&table::RESIDENT_MEMORY, read_bytes("VmRSS:")),
        (&table::ANONYMOUS_MEMORY, read_bytes("RssAnon:")),
        (&table::OPEN_FILES, open_files),
        (&table::OPEN_FILES_MAX, open_files_max),
    ];
    for (family, number) in samples {
        page.start_family(family);
        if let Some(number) = number {
            page.write_sample(&[], number);
        }
    }
}
