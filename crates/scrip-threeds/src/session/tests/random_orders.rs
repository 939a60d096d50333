//! Random event orders: a final phase never changes, events of other sessions are rejected, and a
//! stored session continues like one in memory.

use proptest::{collection::vec, prelude::*};

use super::*;

fn status_code() -> impl Strategy<Value = &'static str> {
    // Mostly codes that continue the session.
    prop_oneof![
        1 => prop::sample::select(vec!["Y", "A", "N", "U", "R", "I"]),
        2 => prop::sample::select(vec!["C", "D"]),
    ]
}

fn result_code() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["Y", "A", "N", "U", "R"])
}

/// Mostly the correct id.
fn mostly_right_id(right: &'static str) -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(right), 1 => Just(OTHER_TRANS_ID)]
}

/// An event, and whether it is about another session.
fn any_event() -> impl Strategy<Value = (StateMachineEvent, bool)> {
    let plain = |it: StateMachineEvent| Just((it, false));
    let secret = prop_oneof![5 => Just(SecretCheck::Matches), 1 => Just(SecretCheck::Differs)];
    let minutes = prop::option::of(1..10_u16);
    prop_oneof![
        1 => mostly_right_id(SERVER_TRANS_ID)
            .prop_map(|it| (StateMachineEvent::MethodNotification { server_trans_id: trans_id(it) }, it == OTHER_TRANS_ID)),
        1 => plain(StateMachineEvent::MethodTimeout),
        2 => plain(StateMachineEvent::DeviceInfo),
        3 => minutes.prop_map(|decoupled_minutes| {
            (StateMachineEvent::Authenticate { parameters: AuthenticationParameters { decoupled_minutes, ..parameters() } }, false)
        }),
        1 => plain(StateMachineEvent::RequestNotSent),
        5 => (mostly_right_id(SERVER_TRANS_ID), status_code()).prop_map(|(server, status)| {
            (StateMachineEvent::Response { ares: Box::new(ares(server, status)) }, server == OTHER_TRANS_ID)
        }),
        1 => plain(StateMachineEvent::Error),
        1 => plain(StateMachineEvent::Timeout),
        6 => (mostly_right_id(SERVER_TRANS_ID), mostly_right_id(ACS_TRANS_ID), mostly_right_id(DS_TRANS_ID), result_code(), secret).prop_map(
            |(server, acs, ds, status, secret)| {
                let other = [server, acs, ds].contains(&OTHER_TRANS_ID) || secret == SecretCheck::Differs;
                let result = Box::new(rreq([server, acs, ds], status));
                (StateMachineEvent::Result { result, secret }, other)
            }
        ),
        2 => (mostly_right_id(SERVER_TRANS_ID), mostly_right_id(ACS_TRANS_ID), prop::sample::select(vec![Some("Y"), Some("N"), None]))
            .prop_map(|(server, acs, status)| {
                let response = Box::new(cres(server, acs, status));
                (StateMachineEvent::ChallengeNotification { response }, [server, acs].contains(&OTHER_TRANS_ID))
            }),
        1 => plain(StateMachineEvent::ResultRequested),
        1 => plain(StateMachineEvent::Expire),
    ]
}

/// Mostly short, so that sessions do not expire before their challenge.
fn any_pause() -> impl Strategy<Value = i64> {
    prop_oneof![12 => 0..20_i64, 1 => 0..4000_i64]
}

fn any_session() -> impl Strategy<Value = ThreeDsSession> {
    let channel = prop::sample::select(DeviceChannel::ALL.to_vec());
    (channel, any::<bool>()).prop_map(|(channel, method)| {
        let session = new_session(channel);
        if method { session.with_method() } else { session }
    })
}

/// The part of a final state that must not change: everything except whether the browser has
/// reported the end.
fn final_outcome(session: &ThreeDsSession) -> (u8, Option<&crate::authentication::Authentication>) {
    let kind = match session.phase {
        ThreeDsPhase::Authenticated { was_challenged, .. } => 1 + u8::from(was_challenged),
        ThreeDsPhase::Failed { .. } => 3,
        ThreeDsPhase::Expired => 4,
        ThreeDsPhase::Created
        | ThreeDsPhase::MethodPending
        | ThreeDsPhase::MethodCompleted
        | ThreeDsPhase::MethodTimedOut
        | ThreeDsPhase::Authenticating { .. }
        | ThreeDsPhase::Challenged { .. }
        | ThreeDsPhase::Decoupled { .. } => 0,
    };
    (kind, session.authentication())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_event_orders_keep_session_invariants(start in any_session(), events in vec((any_event(), any_pause()), 1..40)) {
        let mut session = start;
        let mut now = UnixSeconds(0);
        let mut sent_count = 0;
        for ((event, is_foreign), pause) in events {
            now = now.plus_seconds(pause);
            let stored = from_stored(&serde_json::to_vec(&session).unwrap()).unwrap();
            prop_assert_eq!(&stored, &session);
            let stepped = session.step(&event, now);
            prop_assert_eq!(&stored.step(&event, now), &stepped, "after storing");
            let Ok((next, effects)) = stepped else { continue };
            prop_assert!(!is_foreign, "{event:?}");
            if session.is_final() {
                prop_assert!(next.is_final());
                prop_assert_eq!(final_outcome(&next), final_outcome(&session));
            }
            for effect in &effects {
                sent_count += i32::from(matches!(effect, StateMachineEffect::SendAReq { .. }));
            }
            // An AReq that was not sent does not count.
            sent_count -= i32::from(matches!(event, StateMachineEvent::RequestNotSent));
            prop_assert!((0..=1).contains(&sent_count), "at most one AReq per session");
            session = next;
        }
    }

    #[test]
    fn arbitrary_bytes_are_not_a_session(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(from_stored(&bytes).is_err());
    }

    /// Changing one byte of a stored session gives another session or an error, never a panic.
    #[test]
    fn stored_session_with_changed_byte_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let (session, _) = apply_events(
            new_session(DeviceChannel::Browser),
            &[authenticate_event(), response_event("C"), result_event("Y")],
        );
        let mut bytes = serde_json::to_vec(&session).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        if let Ok(read) = from_stored(&bytes) {
            let stored_again = serde_json::to_vec(&read).unwrap();
            prop_assert_eq!(from_stored(&stored_again).unwrap(), read);
        }
    }
}
