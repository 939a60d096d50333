//! What the kernel knows of this process. Elsewhere than on Linux there is nothing to read, and then
//! nothing is shown.

use std::fs;

use nix::sys::resource::{Resource, getrlimit};

use crate::metrics::{page::MetricsPage, table};

pub(super) fn write_process_metrics(page: &mut MetricsPage) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let line = status.lines().find_map(|it| it.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib.saturating_mul(1024))
    };
    // One more is the folder that is being read.
    let open = fs::read_dir("/proc/self/fd").ok().map(|it| it.count().saturating_sub(1));
    let open = open.and_then(|it| u64::try_from(it).ok());
    let maximum = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft);
    let found = [
        (&table::RESIDENT_MEMORY, bytes("VmRSS:")),
        (&table::ANONYMOUS_MEMORY, bytes("RssAnon:")),
        (&table::OPEN_FILES, open),
        (&table::OPEN_FILES_MAX, maximum),
    ];
    for (family, number) in found {
        page.family(family);
        if let Some(number) = number {
            page.sample(&[], number);
        }
    }
}
