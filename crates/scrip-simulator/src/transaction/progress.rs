//! How far a challenge is. Several may want to move it on; each step is taken once.

use scrip_threeds::code::Status;
use tokio::sync::watch;

/// Where a challenge stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody has asked for it yet.
    Waiting,
    /// The cardholder has the page.
    Shown,
    /// The result is on its way.
    Ending,
    /// The browser can go home with this.
    Ended(Status),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visit {
    First,
    Again,
}

#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<Phase>);

impl Progress {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(Phase::Waiting))
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// The cardholder has come. Whether that was the first time.
    pub(crate) fn begin(&self) -> Visit {
        if self.step(Phase::Waiting, Phase::Shown) { Visit::First } else { Visit::Again }
    }

    /// Of all who want to end it, one may, and only from the phase that it has seen.
    pub(crate) fn claim(&self, from: Phase) -> bool {
        self.step(from, Phase::Ending)
    }

    pub(crate) fn end(&self, told: Status) {
        self.0.send_replace(Phase::Ended(told));
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) -> Option<Status> {
        let mut phases = self.0.subscribe();
        let ended = phases.wait_for(|it| matches!(it, Phase::Ended(_))).await.ok()?;
        match *ended {
            Phase::Ended(status) => Some(status),
            Phase::Waiting | Phase::Shown | Phase::Ending => None,
        }
    }

    fn step(&self, from: Phase, to: Phase) -> bool {
        self.0.send_if_modified(|phase| {
            let there = *phase == from;
            if there {
                *phase = to;
            }
            there
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_taken_once() {
        let progress = Progress::new();
        assert!(!progress.claim(Phase::Shown), "nobody has seen a page");
        assert_eq!([progress.begin(), progress.begin()], [Visit::First, Visit::Again]);
        assert!(!progress.claim(Phase::Waiting), "a timer for who has come");
        assert!(progress.claim(Phase::Shown) && !progress.claim(Phase::Shown));
        progress.end(Status::Successful);
        assert_eq!(progress.begin(), Visit::Again);
        assert!(!progress.claim(Phase::Shown));
        assert_eq!(progress.phase(), Phase::Ended(Status::Successful));
    }
}
