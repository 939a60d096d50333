//! Work that goes on without its client, and that a server which stops has to wait for.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// Everything that has begun and not ended.
#[derive(Debug)]
pub struct Ongoing(watch::Sender<()>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    _share: watch::Receiver<()>,
}

impl Default for Ongoing {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Ongoing {
    pub(crate) fn begin(&self) -> Counted {
        Counted { _share: self.0.subscribe() }
    }

    /// Whether all of it ended within that time.
    pub async fn ended(&self, most: Duration) -> bool {
        timeout(most, self.0.closed()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_waits_for_the_last() {
        let (ongoing, moment) = (Ongoing::default(), Duration::from_millis(1));
        assert!(ongoing.ended(moment).await);
        let (one, other) = (ongoing.begin(), ongoing.begin());
        assert!(!ongoing.ended(moment).await);
        drop(one);
        assert!(!ongoing.ended(moment).await);
        drop(other);
        assert!(ongoing.ended(moment).await);
    }
}
