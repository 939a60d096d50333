//! Whether a request may come now: counted here, or with other servers through Redis.
//!
//! The table and the counters themselves are in the core; this decides which counters are asked,
//! and remembers what was decided.

pub mod refusals;
pub mod tally;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use scrip_core::{
    policy::rate_limit::{
        Demand, Facts, Figures, Network, Row, address_demand,
        counters::{Counters, Fullness, Refused},
        demands,
    },
    time::{Clock, Timestamp},
};
use scrip_seal::Pepper;

use crate::limiter::{
    refusals::Refusals,
    tally::{Decisions, Tally},
};

/// How long a refusal is known that may end early.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);

/// Counters of one process, when nobody says otherwise.
pub const COUNTERS_MAX: usize = 100_000;

#[derive(Debug)]
pub struct Limiter {
    /// Nothing when limits are off.
    figures: Option<Figures>,
    local: Counters,
    shared: Option<(Arc<dyn SharedCounters>, WhenAway)>,
    /// What the shared counters said of addresses, so that the same need not be asked again.
    refusals: Refusals,
    tally: Tally,
}

/// Counters that several servers share.
pub trait SharedCounters: fmt::Debug + Send + Sync {
    /// Counts on all of these counters or on none.
    fn count<'a>(self: Arc<Self>, pepper: &'a Pepper, demands: &'a [Demand]) -> Counting<'a>;

    /// How often they did not answer.
    fn failed(&self) -> u64;

    /// Whether they answer now.
    fn answers(&self) -> bool;
}

/// Fails when the counters did not answer in time; whether they counted is not known then.
pub type Counting<'a> = Pin<Box<dyn Future<Output = Result<Counted, Away>> + Send + 'a>>;

/// What was decided, and when by the clock of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    pub at_us: u64,
    pub outcome: Result<(), Refused>,
}

/// No answer, or none in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away;

/// What to do when the shared counters do not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenAway {
    /// Each server counts for itself.
    Local,
    /// Nobody is let in.
    Closed,
}

/// Why a request is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    Refused(Refused),
    /// The shared counters do not answer, and nobody is let in without them.
    Away,
}

impl Default for Limiter {
    /// By the table, for this process alone.
    fn default() -> Self {
        Self::new(Figures::default(), COUNTERS_MAX)
    }
}

impl Limiter {
    #[must_use]
    pub fn new(figures: Figures, counters_max: usize) -> Self {
        Self {
            figures: Some(figures),
            local: Counters::new(counters_max),
            shared: None,
            refusals: Refusals::default(),
            tally: Tally::default(),
        }
    }

    /// Lets everybody in.
    #[must_use]
    pub fn off() -> Self {
        Self { figures: None, ..Self::new(Figures::default(), 0) }
    }

    /// Counts with others.
    #[must_use]
    pub fn sharing(self, shared: Arc<dyn SharedCounters>, when_away: WhenAway) -> Self {
        Self { shared: Some((shared, when_away)), ..self }
    }

    /// Before anything is looked up: whether this address may ask at all. Counts nothing, and asks
    /// nobody else.
    ///
    /// # Errors
    /// It has asked for too much, or is blocked.
    pub fn ask_address(&self, now: Timestamp, address: Network) -> Result<(), Refused> {
        let demand = self.figures.as_ref().and_then(|it| address_demand(it, address));
        let Some(demand) = demand else { return Ok(()) };
        let asked = self.refusals.ask(now, &demand).and_then(|()| self.local.ask(now, &demand));
        asked.inspect_err(|it| self.tally.refused(it.row))
    }

    /// Counts a request on everything that applies to it, or on nothing.
    ///
    /// # Errors
    /// It is one too many somewhere; or nobody can tell.
    pub async fn count(
        &self,
        clock: &dyn Clock,
        pepper: &Pepper,
        facts: &Facts,
    ) -> Result<(), Stopped> {
        let Some(figures) = &self.figures else { return Ok(()) };
        let demands = demands(figures, facts);
        if demands.is_empty() {
            return Ok(());
        }
        let counted = self.count_all(clock, pepper, &demands).await;
        match &counted {
            Ok(()) => self.tally.allowed(&demands),
            Err(Stopped::Refused(refused)) => self.tally.refused(refused.row),
            Err(Stopped::Away) => (),
        }
        counted
    }

    async fn count_all(
        &self,
        clock: &dyn Clock,
        pepper: &Pepper,
        demands: &[Demand],
    ) -> Result<(), Stopped> {
        let Some((shared, when_away)) = &self.shared else {
            return self.local.count(clock.now(), demands).map_err(Stopped::Refused);
        };
        let now = clock.now();
        for demand in demands {
            self.refusals.ask(now, demand).map_err(Stopped::Refused)?;
        }
        match (Arc::clone(shared).count(pepper, demands).await, when_away) {
            (Ok(counted), _) => counted.outcome.map_err(|refused| {
                self.remember(clock.now(), demands, refused);
                Stopped::Refused(refused)
            }),
            (Err(_), WhenAway::Closed) => Err(Stopped::Away),
            (Err(_), WhenAway::Local) => {
                self.local.count(clock.now(), demands).map_err(Stopped::Refused)
            }
        }
    }

    /// The rate of an address is the same for everybody, so that its refusal cannot end early. A
    /// tenant's share can change, and counts within a second.
    fn remember(&self, now: Timestamp, demands: &[Demand], refused: Refused) {
        let mut of_row = demands.iter().filter(|it| it.row == refused.row);
        // Of a row with two counters nobody said which it was.
        let (Some(demand), None) = (of_row.next(), of_row.next()) else { return };
        let is_address = demand.row == Row::Address;
        let wait = if is_address { refused.wait } else { refused.wait.min(REMEMBERED_FOR) };
        self.refusals.remember(now, demand, wait);
    }

    /// Gives back what is over, when there is little room left.
    pub fn sweep(&self, now: Timestamp) {
        self.local.sweep(now);
    }

    /// What was decided since the start, by row.
    #[must_use]
    pub fn decisions(&self) -> Vec<Decisions> {
        self.tally.decisions()
    }

    /// How full the counters of this process are.
    #[must_use]
    pub fn fullness(&self) -> Fullness {
        self.local.fullness()
    }

    /// How often the shared counters did not answer; nothing when there are none.
    #[must_use]
    pub fn shared_counters_failed(&self) -> Option<u64> {
        self.shared.as_ref().map(|(shared, _)| shared.failed())
    }

    /// Whether they answer now; nothing when there are none.
    #[must_use]
    pub fn shared_counters_answer(&self) -> Option<bool> {
        self.shared.as_ref().map(|(shared, _)| shared.answers())
    }
}
