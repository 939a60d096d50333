//! A store that breaks one promise, for tests that must notice.

use std::{sync::Arc, time::Duration};

use scrip_core::{
    audit::ReadLogBatch,
    policy::LookupPermit,
    store::{Store, StoreFuture},
    token::{BatchOutcome, TokenBatch, TokenWrite, WriteOutcome},
};
use tokio::time::sleep;

use crate::faults::intercepted_store::Interceptor;

/// Long enough that a kill falls into it while every client waits.
const DELAY: Duration = Duration::from_millis(40);

/// Longer than it takes to kill a server after it has shown something.
const UNRECORDED_DELAY: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// No fault: a pause between the commit and the answer, which a client may not tell apart
    /// from a lost request.
    LateResponse,
    /// Answers before the commit.
    EarlyResponse,
    /// Commits the effect without the answer to its idempotency key; late, as above.
    LostIdempotencyRecord,
    /// Shows what it reads before that is recorded.
    UnrecordedRead,
}

impl StoreFault {
    pub fn name(self) -> &'static str {
        match self {
            Self::LateResponse => "late",
            Self::EarlyResponse => "early",
            Self::LostIdempotencyRecord => "forgetful",
            Self::UnrecordedRead => "unseen",
        }
    }

    pub fn parse(name: &str) -> Self {
        let all = [
            Self::LateResponse,
            Self::EarlyResponse,
            Self::LostIdempotencyRecord,
            Self::UnrecordedRead,
        ];
        all.into_iter().find(|it| it.name() == name).expect("a known fault")
    }
}

/// What makes tokens is faulty, or what records reads is.
impl Interceptor for StoreFault {
    fn write_tokens<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        lookup: LookupPermit,
        mut batch: TokenBatch,
    ) -> StoreFuture<'a, BatchOutcome> {
        let inserts = batch.writes.iter().all(|it| matches!(it, TokenWrite::Insert(_)));
        if !inserts || *self == Self::UnrecordedRead {
            return engine.write_tokens(lookup, batch);
        }
        let engine = Arc::clone(engine);
        match self {
            Self::LateResponse | Self::UnrecordedRead => (),
            Self::LostIdempotencyRecord => batch.build_record = None,
            Self::EarlyResponse => {
                let claimed = batch.writes.iter().map(|_| WriteOutcome::New).collect();
                return Box::pin(async move {
                    drop(tokio::spawn(async move {
                        sleep(DELAY).await;
                        drop(engine.write_tokens(lookup, batch).await);
                    }));
                    Ok(BatchOutcome::Written(claimed))
                });
            }
        }
        Box::pin(async move {
            let written = engine.write_tokens(lookup, batch).await;
            sleep(DELAY).await;
            written
        })
    }

    fn append_read_log<'a>(
        &'a self,
        engine: &'a Arc<dyn Store>,
        batch: ReadLogBatch,
    ) -> StoreFuture<'a, ()> {
        if *self != Self::UnrecordedRead {
            return engine.append_read_log(batch);
        }
        let engine = Arc::clone(engine);
        Box::pin(async move {
            drop(tokio::spawn(async move {
                sleep(UNRECORDED_DELAY).await;
                drop(engine.append_read_log(batch).await);
            }));
            Ok(())
        })
    }
}
