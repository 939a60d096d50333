//! Rotations of sealing keys on all engines.

mod compromise;
mod fingerprints;
mod harness;
mod interference;
mod key_bytes;
mod late_writes;
mod sealed_columns;
mod whole_rotation;
