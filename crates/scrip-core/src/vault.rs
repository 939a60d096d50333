//! The vault: the store, the keys and the settings that every operation works with.

use std::sync::Arc;

use scrip_seal::EpochKeys;

use crate::{
    audit::AuditTrail, card::bin_data::BinData, policy::guessing_budget::ledger::GuessLedger,
    store::Store, threeds::DirectoryServers, time::Clock, token::disclosure::DisclosureRules,
};

/// Everything an operation may touch.
#[derive(Clone)]
pub struct Vault {
    pub store: Arc<dyn Store>,
    pub epoch_keys: Arc<EpochKeys>,
    pub bin_data: Arc<BinData>,
    pub clock: Arc<dyn Clock>,
    pub audit_trail: Arc<AuditTrail>,
    pub directory_servers: Arc<dyn DirectoryServers>,
    /// Which expression may meet which data: all rules, in production.
    pub disclosure: DisclosureRules,
    /// Counts of the guessing budget and the search budget.
    pub guess_ledger: Arc<GuessLedger>,
    /// Fills the bytes with chance: the ids that are not given.
    pub fill_random: fn(&mut [u8]),
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}
