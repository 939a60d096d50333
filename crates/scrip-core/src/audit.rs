//! The records of all operations: actor, operation, entity, time and address. Records never contain
//! token data.
//!
//! Writes are recorded in the audit log, in their own transaction. Reads and rejected requests are
//! recorded in the read log, which is on disk before the response is sent. Both logs are hash
//! chains: [`chain`] links the records, [`verify`] finds alterations.

pub mod chain;
pub mod message;
pub mod record_scan;
pub mod retention;
pub mod trail;
pub mod vault_rows;
pub mod verify;

pub use self::{
    chain::{
        AuditRecord, Chain, ChainHead, ChainTip, Checkpoint, HeadSigner, LogKind, LogRecord,
        LogRow, RecordSubject,
    },
    record_scan::{RecordFilter, ScanRecords, ScannedRecords},
    retention::{PruneChain, ResignChain},
    trail::{AuditTrail, ReadRecording},
    vault_rows::{DeletedTenant, SignedWatermark},
    verify::{HeadChange, SavedHead},
};

pub(crate) use self::chain::read_outcome;
