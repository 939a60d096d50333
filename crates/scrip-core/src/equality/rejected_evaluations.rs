//! The budget of rejected evaluations: how often an expression of a caller may fail on the same hidden
//! data.
//!
//! A caller that may use a token, or reads it with a mask, learns something from each expression that
//! fails or succeeds on its data. Each application has one counter for the data of each token. All
//! browsers together have one of their own, so that they cannot lock out a backend.

use scrip_seal::IndexDigest;

use crate::{
    Error,
    equality::{
        CallerClass, GuessBucket, GuessBucketKind,
        bucket::{DAY, GuessBudget},
        comparison::GuessCount,
        ledger::is_reached,
    },
    policy::{Caller, Tenant, tenant::quota::QuotaLimit},
    types::id::ProxyId,
};

const EXHAUSTED: &str = "too many expressions failed on the data of this token within 24 hours; a \
                         key with a reveal right is not limited";

impl GuessCount<'_> {
    /// Checks the budgets of hidden data before an expression is evaluated on it.
    /// Errors: the budget of some data is exhausted, or the counters cannot be read.
    pub(crate) async fn check_rejected_evaluations(
        &self,
        hidden: &[EvaluatedEntity],
    ) -> Result<(), Error> {
        let caller = self.caller;
        let limit = caller.tenant().quotas.rejected_evaluations();
        if hidden.is_empty() || limit == QuotaLimit::Off {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let buckets: Vec<_> = hidden.iter().map(|it| data_bucket(caller, *it)).collect();
        self.ledger.load(self.store, tenant, &buckets, now).await?;
        let state = self.ledger.lock();
        let is_exhausted =
            |it: &GuessBucket| is_reached(limit, state.distinct_count(tenant, *it, now, DAY));
        if buckets.iter().any(is_exhausted) {
            return Err(Error::BudgetExhausted { reason: EXHAUSTED });
        }
        Ok(())
    }

    /// Counts a rejected evaluation for each of these, before the client learns of the rejection.
    ///
    /// Errors: a budget was exhausted by other requests since its check, or too many counts wait to
    /// be stored.
    pub(crate) async fn count_rejected_evaluation(
        &mut self,
        hidden: &[EvaluatedEntity],
        fill_random: fn(&mut [u8]),
    ) -> Result<(), Error> {
        self.check_rejected_evaluations(hidden).await?;
        let caller = self.caller;
        let limit = caller.tenant().quotas.rejected_evaluations();
        if hidden.is_empty() || limit == QuotaLimit::Off {
            return Ok(());
        }
        let (tenant, now) = (caller.tenant().id, self.clock.now());
        let mut state = self.ledger.lock();
        state.check_pending_capacity(tenant, hidden.len())?;
        for data in hidden {
            let bucket = data_bucket(caller, *data);
            // Every rejection counts, also of a repeated expression.
            let mut rejection = [0; 16];
            fill_random(&mut rejection);
            state.add_pending_count((tenant, bucket), rejection, now, DAY);
            if is_reached(limit, state.distinct_count(tenant, bucket, now, DAY)) {
                self.exhausted.push(GuessBudget::RejectedEvaluations);
            }
        }
        Ok(())
    }
}

fn data_bucket(caller: &Caller, data: EvaluatedEntity) -> GuessBucket {
    let (keys, application) = (&caller.tenant().keys, caller.guessing_application().0);
    let class = CallerClass::for_caller(caller);
    // A page can have sessions of several public applications.
    let application: &[u8] = match class {
        CallerClass::Public => b"",
        CallerClass::Private => application.as_bytes(),
    };
    let parts: [&[u8]; 3] = [b"rejected-evaluation", application, data.as_bytes()];
    GuessBucket::new(class, GuessBucketKind::RejectedEvaluation, keys.guess_digest(&parts))
}

/// The key of the counters of hidden data: a token or intent, one encryption of a
/// client, or a proxy.
///
/// The data is no part of it. A caller can submit data, and a counter that equal data shares would tell
/// the caller whether its data equals the hidden one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvaluatedEntity(IndexDigest);

impl EvaluatedEntity {
    /// A token or intent.
    pub(crate) fn from_id(tenant: &Tenant, id: &str) -> Self {
        Self(tenant.keys.guess_digest(&[b"evaluated token", id.as_bytes()]))
    }

    /// One encryption of data by a client, by the parts that identify it. It is no comparison of data:
    /// a client that does not know the data has this encryption only, and equal data has others. A
    /// counter that all data shares would let one visitor of a page lock out the others.
    pub(crate) fn from_encryption(tenant: &Tenant, encrypted_parts: [&[u8]; 2]) -> Self {
        let [nonce, ciphertext] = encrypted_parts;
        Self(tenant.keys.guess_digest(&[b"evaluated encryption", nonce, ciphertext]))
    }

    /// The configuration of a proxy.
    pub fn from_configuration(tenant: &Tenant, proxy: ProxyId) -> Self {
        Self(tenant.keys.guess_digest(&[b"evaluated configuration", proxy.0.as_bytes()]))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0.0
    }
}
