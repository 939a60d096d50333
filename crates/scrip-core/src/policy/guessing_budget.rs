//! The guessing budget and the search budget.
//!
//! A fingerprint, a search or a replayed response tells whether a number is stored. BIN and last four
//! of a card are no secret, so a caller without a reveal right could try the rest: about a thousand
//! numbers for a card of sixteen digits. The budget counts how many distinct numbers of one group
//! (same kind, first digits and last four) such callers have had evaluated. When it is spent,
//! nothing that depends on equality is shown: no fingerprint, no deduplication, no `data:` search.
//!
//! [`numbers`] decides what counts, [`window`] how many are in a window of time, [`ledger`] keeps
//! the counts of this node and writes them behind, [`search`] counts terms of searches.

pub mod ledger;
pub(crate) mod numbers;
pub mod search;
mod window;

use std::time::Duration;

use scrip_seal::IndexDigest;

use crate::{
    Vault,
    audit::{Operation, trail::Seen},
    error::Error,
    id::TenantId,
    policy::{
        caller::Caller,
        guessing_budget::{
            ledger::Counting,
            numbers::{
                CountedNumber, EvaluatedTexts, NUMBERS_MAX, compared_numbers, evaluated_numbers,
            },
        },
        permission::ApplicationKind,
        tenant::quota::{Limit, Quotas},
    },
    store::StoreFuture,
    time::Timestamp,
    token::{plain::Plain, token_type::TokenType},
};

pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What the quotas call a quarter.
pub const QUARTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Whether the fingerprint of a number may be stored and shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fingerprinting {
    On,
    /// A budget is spent: no fingerprint, no deduplication, whether the number is known or not.
    Withheld,
}

/// The budgets that can be spent, each a label of the metric and the outcome of the audit record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    Day,
    Quarter,
    Application,
    SearchDigits,
    SearchText,
}

impl Budget {
    pub const ALL: [Self; 5] =
        [Self::Day, Self::Quarter, Self::Application, Self::SearchDigits, Self::SearchText];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "number_guesses_day",
            Self::Quarter => "number_guesses_quarter",
            Self::Application => "number_guesses_application",
            Self::SearchDigits => "search_misses_digits",
            Self::SearchText => "search_misses_text",
        }
    }
}

/// Browsers have counters of their own, so that they cannot spend the budget of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerClass {
    /// Public applications and access sessions.
    Public,
    Private,
}

impl CallerClass {
    pub(crate) fn of(caller: &Caller) -> Self {
        match caller.principal().kind() {
            _ if caller.session().is_some() => Self::Public,
            ApplicationKind::Public => Self::Public,
            ApplicationKind::Private | ApplicationKind::Management => Self::Private,
        }
    }
}

/// A counter: who shares it and what it counts, and a keyed digest of the rest of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Bucket(pub [u8; 17]);

#[derive(Debug, Clone, Copy)]
pub(crate) enum BucketKind {
    Group,
    Application,
    SearchDigits,
    SearchText,
}

impl Bucket {
    pub(crate) fn new(class: CallerClass, kind: BucketKind, name: IndexDigest) -> Self {
        let class = match class {
            CallerClass::Public => 0,
            CallerClass::Private => 4,
        };
        let kind = match kind {
            BucketKind::Group => 0,
            BucketKind::Application => 1,
            BucketKind::SearchDigits => 2,
            BucketKind::SearchText => 3,
        };
        let mut bytes = [0; 17];
        let parts = std::iter::once(class | kind).chain(name.0);
        for (to, from) in bytes.iter_mut().zip(parts) {
            *to = from;
        }
        Self(bytes)
    }
}

/// What a store keeps of one counted number or search term: digests only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuessRecord {
    pub bucket: Bucket,
    pub number: [u8; 16],
    /// When it was last counted.
    pub at: Timestamp,
    /// When no window holds it any more, and it may be removed.
    pub expires_at: Timestamp,
}

/// What the budgets need stored. A supertrait of [`crate::store::Store`].
pub trait GuessStore {
    /// Every unexpired record of these buckets. Never waits for a writer.
    fn find_guesses<'a>(
        &'a self,
        tenant: TenantId,
        buckets: &'a [Bucket],
        now: Timestamp,
    ) -> StoreFuture<'a, Vec<GuessRecord>>;

    /// Stores the records; one that is stored already keeps the later time.
    fn insert_guesses(&self, tenant: TenantId, records: Vec<GuessRecord>) -> StoreFuture<'_, ()>;

    /// Removes some of the records that had expired by then; how many.
    fn sweep_guesses(&self, expired: Timestamp) -> StoreFuture<'_, usize>;
}

/// The limits that apply to one caller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GuessLimits {
    pub(crate) day: Limit,
    pub(crate) quarter: Limit,
    pub(crate) application: Limit,
}

impl GuessLimits {
    fn of(quotas: &Quotas) -> Self {
        Self {
            day: quotas.number_guesses_day,
            quarter: quotas.number_guesses_quarter,
            application: quotas.number_guesses_application,
        }
    }

    fn is_off(&self) -> bool {
        [self.day, self.quarter, self.application].iter().all(|it| *it == Limit::Off)
    }
}

/// What an operation evaluated for a caller: the data of one token, and the texts that the
/// fingerprint expression and the search indexes gave for it.
pub(crate) struct EvaluatedNumbers<'a> {
    pub(crate) token_type: TokenType,
    pub(crate) data: &'a Plain,
    pub(crate) texts: &'a EvaluatedTexts,
}

impl Vault {
    /// Counts the numbers of one token before anything that depends on them is stored or shown.
    ///
    /// # Errors
    /// The counters cannot be read, or that a budget is spent cannot be recorded.
    pub(crate) async fn count_numbers(
        &self,
        caller: &Caller,
        evaluated: EvaluatedNumbers<'_>,
    ) -> Result<Fingerprinting, Error> {
        if !self.counts_numbers(caller) {
            return Ok(Fingerprinting::On);
        }
        let numbers = evaluated_numbers(caller, &evaluated);
        self.count(caller, &numbers).await
    }

    /// Counts the numbers of a request body that is about to be compared with an earlier one.
    ///
    /// # Errors
    /// As [`Vault::count_numbers`].
    pub(crate) async fn count_compared(
        &self,
        caller: &Caller,
        body: &Plain,
    ) -> Result<Fingerprinting, Error> {
        if !self.counts_numbers(caller) {
            return Ok(Fingerprinting::On);
        }
        self.count(caller, &compared_numbers(caller, body)).await
    }

    /// Whether a budget is on and the caller could learn something by guessing. Where the new token
    /// is does not matter: its fingerprint can be compared with those of every container. A public
    /// key or an access session is in the hands of browsers, so a masked reader may have it too:
    /// its numbers are counted whatever it sees itself.
    fn counts_numbers(&self, caller: &Caller) -> bool {
        let is_public = CallerClass::of(caller) == CallerClass::Public;
        !GuessLimits::of(&caller.tenant().quotas).is_off()
            && (is_public || !caller.principal().sees_all_in_clear())
    }

    pub(crate) async fn count(
        &self,
        caller: &Caller,
        numbers: &[CountedNumber],
    ) -> Result<Fingerprinting, Error> {
        let limits = GuessLimits::of(&caller.tenant().quotas);
        if numbers.is_empty() || limits.is_off() {
            return Ok(Fingerprinting::On);
        }
        if numbers.len() > NUMBERS_MAX {
            return Ok(Fingerprinting::Withheld);
        }
        let counting = Counting::of(caller, limits, self.clock.now());
        let counted = self.guesses.count(&*self.store, counting, numbers).await?;
        self.record_spent(caller, &counted.spent).await?;
        Ok(counted.fingerprinting)
    }

    /// One audit record and one count of the metric for each budget that was spent just now.
    async fn record_spent(&self, caller: &Caller, spent: &[Budget]) -> Result<(), Error> {
        if spent.is_empty() {
            return Ok(());
        }
        let application = caller.application().to_string();
        let seen = spent.iter().map(|it| {
            self.guesses.spent.count(*it);
            Seen::new(application.clone(), it.as_str())
        });
        self.record_seen(caller, Operation::SpendBudget, seen.collect()).await
    }
}
