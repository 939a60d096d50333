//! Who may ask how often: the table, and which of its counters a request counts on.
//!
//! Nothing here counts. A request is told which counters apply to it, each with its rate; all of
//! them have to have room, so the lowest rate decides.

pub mod counters;
mod log;
mod table;

use std::{net::IpAddr, num::NonZeroU32, time::Duration};

use crate::{
    audit::Operation,
    policy::{ApplicationKind, TenantKind, tenant::quota::RateLimit},
};

pub use self::table::{Figures, Row, TABLE};

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    pub row: Row,
    pub scope: Scope,
    pub counter: Counter,
    pub rate: Rate,
}

/// Which requests a row is about.
#[derive(Debug, Clone, Copy)]
pub enum Scope {
    Any,
    TestTenant,
    Operations(&'static [Operation]),
    AccountUpdater,
    Kind(ApplicationKind),
    /// A proxy that is called without an API key, or under a name of its own.
    KeylessProxy,
    ProxyHostname,
    LegacyKey,
}

/// By what a row tells counters apart. *And* is one counter for each pair, *or* one for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Address,
    ApiKey,
    ApiKeyAndAddress,
    ApiKeyOrAddress,
    ProxyKeyAndAddress,
    HostnameAndAddress,
}

/// At most so many requests in any window of this length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub requests: NonZeroU32,
    pub window: Duration,
    pub action: Action,
}

/// What follows from a request too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is refused, and so is every other while the window is full.
    Throttle,
    /// Everything on that counter is refused for this long.
    Block(Duration),
}

impl Rate {
    /// The rate for a tenant that has its own share of it. At least one request.
    #[must_use]
    pub fn scaled(self, percent: NonZeroU32) -> Self {
        let share = u64::from(self.requests.get()).saturating_mul(u64::from(percent.get())) / 100;
        let requests = u32::try_from(share).ok().and_then(NonZeroU32::new);
        let fallback = if share == 0 { NonZeroU32::MIN } else { NonZeroU32::MAX };
        Self { requests: requests.unwrap_or(fallback), ..self }
    }

    #[must_use]
    pub fn block(self) -> Option<Duration> {
        match self.action {
            Action::Throttle => None,
            Action::Block(time) => Some(time),
        }
    }
}

/// An address as it is counted: an IPv4 address whole, an IPv6 address by its first 64 bits, which
/// one customer of a provider has all to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(pub [u8; 16]);

impl Network {
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => {
                Self((u128::from(address) & !u128::from(u64::MAX)).to_be_bytes())
            }
        }
    }
}

/// A key, a proxy or a name: half of its keyed digest, so that none of them stands in a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark(pub [u8; 16]);

impl Mark {
    #[must_use]
    pub fn of(digest: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        for (to, from) in half.iter_mut().zip(digest) {
            *to = *from;
        }
        Self(half)
    }
}

/// What a request is counted by, beside the row that counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    Address(Network),
    Marked(Mark),
    Pair(Mark, Network),
}

/// One counter, and the rate that this request meets there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    pub row: Row,
    pub subject: Subject,
    pub rate: Rate,
}

/// What a request is, so far as limits care.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub address: Network,
    pub target: Target,
    /// Nobody, for a request without a key that is known.
    pub caller: Option<CallerFacts>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Operation(Operation),
    AccountUpdater,
    /// By its key, without one of ours.
    KeylessProxy(Mark),
    /// By its name.
    ProxyHostname(Mark),
    /// A path where nothing is, or what tells of the interface.
    Elsewhere,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct CallerFacts {
    pub api_key: Mark,
    /// Of an access session: public, whoever authorized it.
    pub kind: ApplicationKind,
    pub is_legacy: bool,
    pub tenant: Mark,
    pub tenant_kind: TenantKind,
    pub share: RateLimit,
}

/// The counters of a request, in the order of the table.
#[must_use]
pub fn demands(figures: &Figures, facts: &Facts) -> Vec<Demand> {
    let mut demands = Vec::with_capacity(DEMANDS_USUAL);
    for (limit, rate) in figures.rows() {
        if !limit.scope.has(facts) {
            continue;
        }
        let Some(rate) = share(limit.scope, facts, rate) else { continue };
        for subject in subjects(limit.counter, facts).into_iter().flatten() {
            demands.push(Demand { row: limit.row, subject, rate });
        }
    }
    demands
}

/// The one counter that is known before the caller is.
#[must_use]
pub fn address_demand(figures: &Figures, address: Network) -> Option<Demand> {
    let rate = figures.rate(Row::Address)?;
    Some(Demand { row: Row::Address, subject: Subject::Address(address), rate })
}

/// A test tenant's private key has five; six with a legacy key.
const DEMANDS_USUAL: usize = 6;

impl Scope {
    fn has(self, facts: &Facts) -> bool {
        let caller = facts.caller.as_ref();
        match self {
            Self::Any => true,
            Self::TestTenant => caller.is_some_and(|it| it.tenant_kind == TenantKind::Test),
            Self::Kind(kind) => caller.is_some_and(|it| it.kind == kind),
            Self::LegacyKey => caller.is_some_and(|it| it.is_legacy),
            Self::Operations(operations) => {
                matches!(facts.target, Target::Operation(it) if operations.contains(&it))
            }
            Self::AccountUpdater => facts.target == Target::AccountUpdater,
            Self::KeylessProxy => matches!(facts.target, Target::KeylessProxy(_)),
            Self::ProxyHostname => matches!(facts.target, Target::ProxyHostname(_)),
        }
    }
}

/// What a tenant may have of a rate. The row of every address is nobody's to adjust.
fn share(scope: Scope, facts: &Facts, rate: Rate) -> Option<Rate> {
    let share = match scope {
        Scope::Any => RateLimit::Default,
        Scope::TestTenant
        | Scope::Operations(_)
        | Scope::AccountUpdater
        | Scope::Kind(_)
        | Scope::KeylessProxy
        | Scope::ProxyHostname
        | Scope::LegacyKey => facts.caller.map_or(RateLimit::Default, |it| it.share),
    };
    match share {
        RateLimit::Default => Some(rate),
        RateLimit::Percent(percent) => Some(rate.scaled(percent)),
        RateLimit::Off => None,
    }
}

fn subjects(counter: Counter, facts: &Facts) -> [Option<Subject>; 2] {
    let address = facts.address;
    let caller = facts.caller.as_ref();
    let pair = |mark: Mark| Some(Subject::Pair(mark, address));
    match counter {
        Counter::Address => [Some(Subject::Address(address)), None],
        Counter::ApiKey => [caller.map(|it| Subject::Marked(it.api_key)), None],
        Counter::ApiKeyAndAddress => [caller.and_then(|it| pair(it.api_key)), None],
        Counter::ApiKeyOrAddress => {
            [caller.map(|it| Subject::Marked(it.api_key)), caller.map(|it| own(it, address))]
        }
        Counter::ProxyKeyAndAddress | Counter::HostnameAndAddress => match facts.target {
            Target::KeylessProxy(mark) | Target::ProxyHostname(mark) => [pair(mark), None],
            Target::Operation(_) | Target::AccountUpdater | Target::Elsewhere => [None, None],
        },
    }
}

/// Tenants share the counter of an address, but for one whose rate is another: what the others ask
/// for must not count against a smaller one, nor its own against theirs.
fn own(caller: &CallerFacts, address: Network) -> Subject {
    match caller.share {
        RateLimit::Default | RateLimit::Off => Subject::Address(address),
        RateLimit::Percent(_) => Subject::Pair(caller.tenant, address),
    }
}

#[cfg(test)]
mod tests;
