//! Changes of stored entities: what an engine commits together with a write, and the records of a
//! policy change.

pub(crate) mod change_record;
pub mod commit_extras;

pub use self::{
    change_record::{
        DecidePolicyRestore, LoadedPolicy, PolicyEdit, PolicyRestore, PolicyTurn, StoredPolicy,
    },
    commit_extras::{ChangeOutcome, CommitExtras},
};
