//! Writes to the read log on behalf of requests, and reads of both logs. A request is recorded
//! before its response is sent.

mod guess_count;
pub mod key_use;
pub(crate) mod log_page;
pub mod record_reads;
