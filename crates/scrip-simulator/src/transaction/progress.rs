//! The progress of a challenge. Concurrent requests and timers may advance it; each transition
//! happens once.

use scrip_threeds::code::Status;
use tokio::sync::watch;

/// The phase of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChallengePhase {
    /// No `CReq` has arrived.
    AwaitingRequest,
    /// The challenge page is open.
    InProgress,
    /// The result is being sent.
    Finishing,
    /// The browser can return with this status.
    Finished(Status),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChallengeStart {
    First,
    Repeated,
}

#[derive(Debug)]
pub(crate) struct ChallengeProgress(watch::Sender<ChallengePhase>);

impl ChallengeProgress {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(ChallengePhase::AwaitingRequest))
    }

    pub(crate) fn phase(&self) -> ChallengePhase {
        *self.0.borrow()
    }

    /// Records a `CReq` and returns whether it was the first.
    pub(crate) fn start(&self) -> ChallengeStart {
        if self.transition(ChallengePhase::AwaitingRequest, ChallengePhase::InProgress) {
            ChallengeStart::First
        } else {
            ChallengeStart::Repeated
        }
    }

    /// Only one caller may end the challenge, and only from the phase that it has observed.
    pub(crate) fn claim_finish(&self, from: ChallengePhase) -> bool {
        self.transition(from, ChallengePhase::Finishing)
    }

    pub(crate) fn finish(&self, status: Status) {
        self.0.send_replace(ChallengePhase::Finished(status));
    }

    /// Waits for the end of the challenge.
    pub(crate) async fn wait_until_finished(&self) -> Option<Status> {
        let mut phases = self.0.subscribe();
        let finished =
            phases.wait_for(|it| matches!(it, ChallengePhase::Finished(_))).await.ok()?;
        match *finished {
            ChallengePhase::Finished(status) => Some(status),
            ChallengePhase::AwaitingRequest
            | ChallengePhase::InProgress
            | ChallengePhase::Finishing => None,
        }
    }

    fn transition(&self, from: ChallengePhase, to: ChallengePhase) -> bool {
        self.0.send_if_modified(|phase| {
            let is_expected = *phase == from;
            if is_expected {
                *phase = to;
            }
            is_expected
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_phase_transitions_happen_once() {
        let progress = ChallengeProgress::new();
        assert!(!progress.claim_finish(ChallengePhase::InProgress), "no page is open");
        assert_eq!(
            [progress.start(), progress.start()],
            [ChallengeStart::First, ChallengeStart::Repeated]
        );
        assert!(
            !progress.claim_finish(ChallengePhase::AwaitingRequest),
            "the timer of the first CReq ends after the CReq"
        );
        assert!(
            progress.claim_finish(ChallengePhase::InProgress)
                && !progress.claim_finish(ChallengePhase::InProgress)
        );
        progress.finish(Status::Successful);
        assert_eq!(progress.start(), ChallengeStart::Repeated);
        assert!(!progress.claim_finish(ChallengePhase::InProgress));
        assert_eq!(progress.phase(), ChallengePhase::Finished(Status::Successful));
    }
}
