//! The vault: the store, keys and settings that every operation uses.

use std::sync::Arc;

use scrip_seal::EpochKeys;

use crate::{
    audit::AuditTrail,
    card::bin_data::BinData,
    equality::ledger::GuessLedger,
    log_tasks::OutcomeQueue,
    store::Store,
    threeds::DirectoryServers,
    types::{DisclosureRules, time::Clock},
};

/// All dependencies of the operations.
#[derive(Clone)]
pub struct Vault {
    pub store: Arc<dyn Store>,
    pub epoch_keys: Arc<EpochKeys>,
    pub bin_data: Arc<BinData>,
    pub clock: Arc<dyn Clock>,
    pub audit_trail: Arc<AuditTrail>,
    pub directory_servers: Arc<dyn DirectoryServers>,
    /// The rules for expressions on data of other callers. In production, all rules apply.
    pub disclosure: DisclosureRules,
    /// Counts of the guessing budget and the search budget.
    pub guess_ledger: Arc<GuessLedger>,
    /// The outcomes of proxied calls that are not recorded yet.
    pub outcome_queue: Arc<OutcomeQueue>,
    /// Fills a buffer with random bytes, such as for generated ids.
    pub fill_random: fn(&mut [u8]),
}

hide_in_debug! { Vault }
