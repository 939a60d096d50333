//! What the vault does, without saying how it is reached or where it keeps things.
//!
//! Architecture invariant: no HTTP, no SQL, no algorithm, no ambient time or randomness in this
//! crate.

pub mod access;
pub mod access_session;
pub mod answer;
pub mod application;
pub mod audit;
pub mod bank;
mod batch;
pub mod bin_data;
pub mod body;
pub mod caller;
pub mod card;
mod change;
pub mod compiled;
pub mod connection_formula;
pub mod container;
mod conversion;
mod cursor;
pub mod cursor_page;
pub mod cvc;
pub mod directory;
pub mod disclosure;
mod draft;
pub mod enrichment;
pub mod error;
mod expressions;
mod fields;
pub mod guessing_budget;
pub mod id;
pub mod listing;
mod log_page;
pub mod measure;
pub mod numbered_page;
pub mod operations;
pub mod page;
mod patch;
pub mod path;
pub mod permission;
pub mod plain;
pub mod policy;
pub mod principal;
pub mod quota;
pub mod rate_limit;
pub mod request_digest;
pub mod reveal;
pub mod store;
pub mod tenant;
pub mod threeds;
pub mod time;
pub mod token;
pub mod token_intent;
pub mod token_type;
pub mod usage;
pub mod vault_rows;
pub mod work;

use std::sync::Arc;

use scrip_seal::EpochKeys;

use crate::{
    audit::trail::AuditTrail, bin_data::BinData, disclosure::DisclosureRules,
    guessing_budget::ledger::GuessLedger, store::Store, threeds::DirectoryServers, time::Clock,
};

/// Everything an operation may touch.
#[derive(Clone)]
pub struct Vault {
    pub store: Arc<dyn Store>,
    pub epochs: Arc<EpochKeys>,
    pub bins: Arc<BinData>,
    pub clock: Arc<dyn Clock>,
    pub audit: Arc<AuditTrail>,
    pub directory_servers: Arc<dyn DirectoryServers>,
    /// Which expression may meet which data: all rules, in production.
    pub disclosure: DisclosureRules,
    /// Counts of the guessing budget and the search budget.
    pub guesses: Arc<GuessLedger>,
    /// Fills the bytes with chance: the ids that are not given.
    pub chance: fn(&mut [u8]),
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}
