//! A store that breaks one promise, for tests that must notice.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::Access,
    policy::Inquiry,
    store::{Store, StoreFuture},
    token::{Batched, Outcome, TokenBatch, TokenWrite},
};
use tokio::time::sleep;

use crate::faults::intercepted_store::Interceptor;

/// Long enough that a kill falls into it while every client waits.
const GAP: Duration = Duration::from_millis(40);

/// Longer than it takes to kill a server after it has shown something.
const UNSEEN_GAP: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// No fault: a pause between the commit and the answer, which a client may not tell apart
    /// from a lost request.
    Late,
    /// Answers before the commit.
    Early,
    /// Commits the effect without the answer to its idempotency key; late, as above.
    Forgetful,
    /// Shows what it reads before that is recorded.
    Unseen,
}

impl StoreFault {
    pub fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Early => "early",
            Self::Forgetful => "forgetful",
            Self::Unseen => "unseen",
        }
    }

    pub fn parse(name: &str) -> Self {
        let all = [Self::Late, Self::Early, Self::Forgetful, Self::Unseen];
        all.into_iter().find(|it| it.name() == name).expect("a known fault")
    }
}

/// What makes tokens is faulty, or what records reads is.
impl Interceptor for StoreFault {
    fn write_tokens<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        inquiry: Inquiry,
        mut batch: TokenBatch,
    ) -> StoreFuture<'a, Batched> {
        let inserts = batch.writes.iter().all(|it| matches!(it, TokenWrite::Insert(_)));
        if !inserts || *self == Self::Unseen {
            return engine.write_tokens(inquiry, batch);
        }
        let engine = Arc::clone(engine);
        match self {
            Self::Late | Self::Unseen => (),
            Self::Forgetful => batch.render = None,
            Self::Early => {
                let claimed = batch.writes.iter().map(|_| Outcome::New).collect();
                return Box::pin(async move {
                    drop(tokio::spawn(async move {
                        sleep(GAP).await;
                        drop(engine.write_tokens(inquiry, batch).await);
                    }));
                    Ok(Batched::Written(claimed))
                });
            }
        }
        Box::pin(async move {
            let written = engine.write_tokens(inquiry, batch).await;
            sleep(GAP).await;
            written
        })
    }

    fn record_access<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        access: Access,
    ) -> StoreFuture<'a, ()> {
        if *self != Self::Unseen {
            return engine.record_access(access);
        }
        let engine = Arc::clone(engine);
        Box::pin(async move {
            drop(tokio::spawn(async move {
                sleep(UNSEEN_GAP).await;
                drop(engine.record_access(access).await);
            }));
            Ok(())
        })
    }
}
