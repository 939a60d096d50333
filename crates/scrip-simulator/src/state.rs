//! The shared state of the simulator.

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

use scrip_threeds::{
    code::Scheme,
    format::{Text, TransId, Url},
};

use crate::{
    behavior::{BehaviorTable, SimulatedBehavior},
    outgoing_client::OutgoingClient,
    page::policy_origin,
    range::SchemeRangeEditions,
    settings::{SimulatorSettings, StartError, Timers},
    signer::Signer,
    transaction::Transactions,
};

/// Reference numbers and texts in the simulator's messages.
#[derive(Debug)]
pub(crate) struct MessageTexts {
    pub(crate) acs_reference: Text<1, 32>,
    pub(crate) ds_reference: Text<1, 32>,
    pub(crate) acs_operator: Text<1, 32>,
    pub(crate) cardholder_info: Text<1, 128>,
}

#[derive(Debug)]
pub(crate) struct SimulatorState {
    pub(crate) base_url: String,
    pub(crate) timers: Timers,
    pub(crate) texts: MessageTexts,
    pub(crate) transactions: Transactions,
    pub(crate) outgoing_client: OutgoingClient,
    signer: OnceLock<Signer>,
    ranges: BTreeMap<Scheme, SchemeRangeEditions>,
    initial_behavior: SimulatedBehavior,
    behavior_table: Mutex<BehaviorTable>,
}

impl SimulatorState {
    pub(crate) fn new(settings: SimulatorSettings) -> Result<Self, StartError> {
        let base_url = settings.base_url.unwrap_or_default();
        let is_plain = !base_url.ends_with('/') && !base_url.contains(['?', '#', ';', ',', '\'']);
        if !is_plain || base_url.len() > 128 || policy_origin(&base_url).is_none() {
            return Err(StartError::BaseUrl);
        }
        let ranges = Scheme::ALL.iter().map(|it| {
            let method_url = format!("{base_url}/sim/acs/{}/method", it.slug());
            let method_url = Url::parse(&method_url).map_err(|_| StartError::BaseUrl)?;
            Ok((*it, SchemeRangeEditions::for_scheme(*it, method_url)?))
        });
        Ok(Self {
            ranges: ranges.collect::<Result<_, StartError>>()?,
            texts: message_texts()?,
            transactions: Transactions::new(settings.transactions_max),
            outgoing_client: OutgoingClient::new(
                &settings.trusted_roots,
                settings.result_destinations,
                settings.timers.outgoing_timeout,
            )?,
            signer: OnceLock::new(),
            timers: settings.timers,
            behavior_table: Mutex::new(BehaviorTable {
                common: settings.behavior.clone(),
                by_scheme: BTreeMap::new(),
            }),
            initial_behavior: settings.behavior,
            base_url,
        })
    }

    /// The signer. Its first use creates the keys: only SDKs need them, and the first random bytes
    /// of a process cost 40 ms of processor time.
    pub(crate) fn signer(&self) -> Result<&Signer, StartError> {
        if let Some(signer) = self.signer.get() {
            return Ok(signer);
        }
        let new_signer = Signer::new()?;
        // A concurrent first use may have stored another signer.
        Ok(self.signer.get_or_init(|| new_signer))
    }

    pub(crate) fn ranges(&self, scheme: Scheme) -> Option<&SchemeRangeEditions> {
        self.ranges.get(&scheme)
    }

    pub(crate) fn behavior(&self, scheme: Scheme) -> SimulatedBehavior {
        self.behavior_for(Some(scheme))
    }

    /// The behavior of one scheme, or the common behavior.
    pub(crate) fn behavior_for(&self, scheme: Option<Scheme>) -> SimulatedBehavior {
        let table = self.behavior_table.lock().unwrap_or_else(PoisonError::into_inner);
        let scheme_behavior = scheme.and_then(|it| table.by_scheme.get(&it));
        scheme_behavior.unwrap_or(&table.common).clone()
    }

    /// Sets the behavior of one scheme, or the common behavior.
    pub(crate) fn set_behavior(&self, scheme: Option<Scheme>, behavior: SimulatedBehavior) {
        let mut table = self.behavior_table.lock().unwrap_or_else(PoisonError::into_inner);
        match scheme {
            Some(scheme) => drop(table.by_scheme.insert(scheme, behavior)),
            None => table.common = behavior,
        }
    }

    pub(crate) fn reset_behavior(&self, scheme: Option<Scheme>) {
        let mut table = self.behavior_table.lock().unwrap_or_else(PoisonError::into_inner);
        match scheme {
            Some(scheme) => drop(table.by_scheme.remove(&scheme)),
            None => {
                *table = BehaviorTable {
                    common: self.initial_behavior.clone(),
                    by_scheme: BTreeMap::new(),
                }
            }
        }
    }
}

fn message_texts() -> Result<MessageTexts, StartError> {
    let name = |text| Text::parse(text).map_err(|_| StartError::Table("names"));
    let info = "Please confirm this payment in your bank's app.";
    Ok(MessageTexts {
        acs_reference: name("mock-acs-reference-number")?,
        ds_reference: name("mock-directory-server-a")?,
        acs_operator: name("mock-acs-operator-id")?,
        cardholder_info: Text::parse(info).map_err(|_| StartError::Table("names"))?,
    })
}

/// A new random id.
pub(crate) fn new_id() -> TransId {
    TransId::from_bytes(*uuid::Uuid::new_v4().as_bytes())
}
