//! One scheme that is connected, for one kind of tenants: its ranges, and what came of asking it.

use std::{future::Future, pin::Pin, sync::Arc};

use arc_swap::ArcSwapOption;
use scrip_api::{labels, metrics::Counters};
use scrip_core::{
    measure::{Counter, Histogram, Level, MICROS_BOUNDS},
    policy::TenantKind,
    threeds::{Link, SchemeRanges, Unanswered},
    time::Timestamp,
};
use scrip_threeds::{code::Scheme, message::MESSAGE_BYTES_MAX, range::CardRanges};
use zeroize::Zeroizing;

use crate::{
    directory_servers::{
        client::{self, Failed, Question, Timing},
        ranges::{self, Failure},
        way::{ForTests, Secured, Way},
        world,
    },
    process::clock::ticks,
};

labels! {
    /// What came of asking.
    pub(crate) enum Outcome {
        Answered "answered",
        NotSent "not_sent",
        TimedOut "timed_out",
        Broken "broken",
    }
}

/// What is counted of one scheme.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Authentications; questions for ranges are told by the two below.
    pub(crate) asks: Counters<Outcome>,
    pub(crate) micros: Histogram<16>,
    /// Milliseconds of the vault's clock; 0 before the first time.
    pub(crate) fetched: Level,
    pub(crate) failures: Counter,
}

#[derive(Debug)]
pub(crate) struct Connected<W> {
    scheme: Scheme,
    pub(super) way: W,
    pub(super) link: Link,
    pub(super) timing: Timing,
    ranges: ArcSwapOption<CardRanges>,
    counts: Counts,
}

/// For whom a way is.
pub(crate) trait Serves: Way {
    const KIND: TenantKind;
}

impl Serves for Secured {
    const KIND: TenantKind = TenantKind::Production;
}

impl Serves for ForTests {
    const KIND: TenantKind = TenantKind::Test;
}

pub(crate) type Refreshing<'a> = Pin<Box<dyn Future<Output = Result<usize, Failure>> + Send + 'a>>;

/// One of them, whatever the way to it.
pub(crate) trait Peer: Send + Sync {
    fn kind(&self) -> TenantKind;
    fn scheme(&self) -> Scheme;
    fn counts(&self) -> &Counts;
    fn ranges(&self) -> Option<Arc<CardRanges>>;

    /// Asks for the ranges and takes them over; how many there are.
    fn refresh(&self, now: Timestamp) -> Refreshing<'_>;
}

impl<W: Way> Connected<W> {
    pub(crate) fn new(scheme: Scheme, way: W, link: Link, timing: Timing) -> Self {
        let counts = Counts {
            asks: Counters::default(),
            micros: Histogram::new(MICROS_BOUNDS),
            fetched: Level::default(),
            failures: Counter::default(),
        };
        Self { scheme, way, link, timing, ranges: ArcSwapOption::empty(), counts }
    }

    pub(crate) fn held(&self) -> Option<Arc<CardRanges>> {
        self.ranges.load_full()
    }
}

impl<W: Serves> Connected<W> {
    pub(crate) fn told(&self) -> SchemeRanges {
        SchemeRanges { scheme: self.scheme, ranges: self.held() }
    }

    /// Sends an authentication, once.
    pub(crate) async fn ask(&self, message: Zeroizing<Vec<u8>>) -> Result<Vec<u8>, Unanswered> {
        let question = Question { message, answer_bytes_max: MESSAGE_BYTES_MAX };
        let begun = ticks();
        let answered = client::ask(&self.way, question, self.timing).await;
        let took = ticks().saturating_sub(begun);
        self.counts.micros.note(took.as_micros().try_into().unwrap_or(u64::MAX));
        let outcome = match &answered {
            Ok(_) => Outcome::Answered,
            Err(Failed { unanswered: Unanswered::NotSent, .. }) => Outcome::NotSent,
            Err(Failed { unanswered: Unanswered::TimedOut, .. }) => Outcome::TimedOut,
            Err(Failed { unanswered: Unanswered::Broken, .. }) => Outcome::Broken,
        };
        self.counts.asks.one(outcome);
        answered.map_err(|Failed { unanswered, cause }| {
            let (scheme, world) = (self.scheme.name(), world(W::KIND));
            tracing::warn!(scheme, world, ?unanswered, cause, "a directory server did not answer");
            unanswered
        })
    }
}

impl<W: Serves> Peer for Connected<W> {
    fn kind(&self) -> TenantKind {
        W::KIND
    }

    fn scheme(&self) -> Scheme {
        self.scheme
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }

    fn ranges(&self) -> Option<Arc<CardRanges>> {
        self.held()
    }

    fn refresh(&self, now: Timestamp) -> Refreshing<'_> {
        Box::pin(async move {
            let fetched = ranges::fetch(self).await;
            let next = fetched.inspect_err(|_| self.counts.failures.one())?;
            let count = next.len();
            self.ranges.store(Some(Arc::new(next)));
            self.counts.fetched.set(u64::try_from(now.unix_ms).unwrap_or_default());
            Ok(count)
        })
    }
}
