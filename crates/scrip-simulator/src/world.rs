//! What all of the simulator shares.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use scrip_threeds::{
    code::Scheme,
    format::{Text, TransId, Url},
};

use crate::{
    acs::Signer,
    knob::{Knobs, Panel},
    outgoing::Outgoing,
    page::origin,
    range::Ranges,
    settings::{Settings, Timers, Unusable},
    transaction::Transactions,
};

/// Names that the sandbox is known by.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) acs_reference: Text<1, 32>,
    pub(crate) ds_reference: Text<1, 32>,
    pub(crate) acs_operator: Text<1, 32>,
    pub(crate) cardholder_info: Text<1, 128>,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) base_url: String,
    pub(crate) timers: Timers,
    pub(crate) names: Names,
    pub(crate) transactions: Transactions,
    pub(crate) outgoing: Outgoing,
    pub(crate) signer: Signer,
    ranges: BTreeMap<Scheme, Ranges>,
    initial: Knobs,
    panel: Mutex<Panel>,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Result<Self, Unusable> {
        let base_url = settings.base_url.unwrap_or_default();
        let plain = !base_url.ends_with('/') && !base_url.contains(['?', '#', ';', ',', '\'']);
        if !plain || base_url.len() > 128 || origin(&base_url).is_none() {
            return Err(Unusable::BaseUrl);
        }
        let ranges = Scheme::ALL.iter().map(|it| {
            let method_url = format!("{base_url}/sim/acs/{}/method", it.slug());
            let method_url = Url::parse(&method_url).map_err(|_| Unusable::BaseUrl)?;
            Ok((*it, Ranges::of(*it, method_url)?))
        });
        Ok(Self {
            ranges: ranges.collect::<Result<_, Unusable>>()?,
            names: names()?,
            transactions: Transactions::new(settings.transactions_max),
            outgoing: Outgoing::new(
                &settings.trusted_roots,
                settings.results,
                settings.timers.outgoing,
            )?,
            signer: Signer::new()?,
            timers: settings.timers,
            panel: Mutex::new(Panel { all: settings.knobs.clone(), schemes: BTreeMap::new() }),
            initial: settings.knobs,
            base_url,
        })
    }

    pub(crate) fn ranges(&self, scheme: Scheme) -> Option<&Ranges> {
        self.ranges.get(&scheme)
    }

    pub(crate) fn knobs(&self, scheme: Scheme) -> Knobs {
        self.knobs_of(Some(scheme))
    }

    /// For one scheme, or those that all of them have.
    pub(crate) fn knobs_of(&self, scheme: Option<Scheme>) -> Knobs {
        let panel = self.panel.lock().unwrap_or_else(PoisonError::into_inner);
        let own = scheme.and_then(|it| panel.schemes.get(&it));
        own.unwrap_or(&panel.all).clone()
    }

    /// For one scheme, or for all of them.
    pub(crate) fn set_knobs(&self, scheme: Option<Scheme>, knobs: Knobs) {
        let mut panel = self.panel.lock().unwrap_or_else(PoisonError::into_inner);
        match scheme {
            Some(scheme) => drop(panel.schemes.insert(scheme, knobs)),
            None => panel.all = knobs,
        }
    }

    pub(crate) fn reset_knobs(&self, scheme: Option<Scheme>) {
        let mut panel = self.panel.lock().unwrap_or_else(PoisonError::into_inner);
        match scheme {
            Some(scheme) => drop(panel.schemes.remove(&scheme)),
            None => *panel = Panel { all: self.initial.clone(), schemes: BTreeMap::new() },
        }
    }
}

fn names() -> Result<Names, Unusable> {
    let name = |text| Text::parse(text).map_err(|_| Unusable::Table("names"));
    let info = "Please confirm this payment in your bank's app.";
    Ok(Names {
        acs_reference: name("mock-acs-reference-number")?,
        ds_reference: name("mock-directory-server-a")?,
        acs_operator: name("mock-acs-operator-id")?,
        cardholder_info: Text::parse(info).map_err(|_| Unusable::Table("names"))?,
    })
}

/// An id that nobody else has.
pub(crate) fn new_id() -> TransId {
    TransId::of(*uuid::Uuid::new_v4().as_bytes())
}
