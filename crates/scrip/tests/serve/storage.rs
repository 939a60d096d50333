//! Failures of the storage: a full disk, and how the server reports it and recovers.

mod full_disk;
pub(crate) mod small_disk;
