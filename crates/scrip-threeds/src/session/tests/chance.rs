//! Whatever order chance brings: a final state is never left, nothing of another session is taken,
//! and a session that was stored goes on as if it had not been.

use proptest::{collection::vec, prelude::*};

use super::*;

fn status_code() -> impl Strategy<Value = &'static str> {
    // Mostly those that lead on.
    prop_oneof![
        1 => prop::sample::select(vec!["Y", "A", "N", "U", "R", "I"]),
        2 => prop::sample::select(vec!["C", "D"]),
    ]
}

fn result_code() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["Y", "A", "N", "U", "R"])
}

/// Mostly the right one.
fn some_id(right: &'static str) -> impl Strategy<Value = &'static str> {
    prop_oneof![4 => Just(right), 1 => Just(OTHER)]
}

/// An event, and whether it is about another session.
fn event() -> impl Strategy<Value = (Event, bool)> {
    let plain = |it: Event| Just((it, false));
    let secret = prop_oneof![5 => Just(SecretFact::Matches), 1 => Just(SecretFact::Differs)];
    let minutes = prop::option::of(1..10_u16);
    prop_oneof![
        1 => some_id(ID)
            .prop_map(|it| (Event::MethodNotification { server_trans_id: id(it) }, it == OTHER)),
        1 => plain(Event::MethodTimeout),
        2 => plain(Event::DeviceInfo),
        3 => minutes.prop_map(|decoupled_minutes| {
            (Event::Authenticate { asked: Asked { decoupled_minutes, ..asked() } }, false)
        }),
        1 => plain(Event::RequestNotSent),
        5 => (some_id(ID), status_code()).prop_map(|(server, status)| {
            (Event::Response { answer: Box::new(answer(server, status)) }, server == OTHER)
        }),
        1 => plain(Event::Error),
        1 => plain(Event::Timeout),
        6 => (some_id(ID), some_id(ACS), some_id(DS), result_code(), secret).prop_map(
            |(server, acs, ds, status, secret)| {
                let other = [server, acs, ds].contains(&OTHER) || secret == SecretFact::Differs;
                let result = Box::new(result([server, acs, ds], status));
                (Event::Result { result, secret }, other)
            }
        ),
        2 => (some_id(ID), some_id(ACS), prop::sample::select(vec![Some("Y"), Some("N"), None]))
            .prop_map(|(server, acs, status)| {
                let response = Box::new(told(server, acs, status));
                (Event::ChallengeNotification { response }, [server, acs].contains(&OTHER))
            }),
        1 => plain(Event::ResultAsked),
        1 => plain(Event::Expire),
    ]
}

/// Mostly short, so that sessions live to see their challenges.
fn pause() -> impl Strategy<Value = i64> {
    prop_oneof![12 => 0..20_i64, 1 => 0..4000_i64]
}

fn start() -> impl Strategy<Value = Session> {
    let channel = prop::sample::select(DeviceChannel::ALL.to_vec());
    (channel, any::<bool>()).prop_map(|(channel, method)| {
        let session = session(channel);
        if method { session.with_method() } else { session }
    })
}

/// What of a final state must stay: all but whether the browser has told of its end.
fn verdict(session: &Session) -> (u8, Option<&crate::authentication::Authentication>) {
    let kind = match session.phase {
        Phase::Authenticated { was_challenged, .. } => 1 + u8::from(was_challenged),
        Phase::Failed { .. } => 3,
        Phase::Expired => 4,
        Phase::Created
        | Phase::MethodPending
        | Phase::MethodCompleted
        | Phase::MethodTimedOut
        | Phase::Authenticating { .. }
        | Phase::Challenged { .. }
        | Phase::Decoupled { .. } => 0,
    };
    (kind, session.authentication())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn any_order(start in start(), events in vec((event(), pause()), 1..40)) {
        let mut session = start;
        let mut now = Moment(0);
        let mut sent = 0;
        for ((event, is_foreign), pause) in events {
            now = now.after_seconds(pause);
            let stored = from_stored(&serde_json::to_vec(&session).unwrap()).unwrap();
            prop_assert_eq!(&stored, &session);
            let stepped = session.step(&event, now);
            prop_assert_eq!(&stored.step(&event, now), &stepped, "stored or not, it goes on");
            let Ok((next, effects)) = stepped else { continue };
            prop_assert!(!is_foreign, "{event:?}");
            if session.is_final() {
                prop_assert!(next.is_final());
                prop_assert_eq!(verdict(&next), verdict(&session));
            }
            for effect in &effects {
                sent += i32::from(matches!(effect, Effect::SendRequest { .. }));
            }
            // What was not sent does not count.
            sent -= i32::from(matches!(event, Event::RequestNotSent));
            prop_assert!((0..=1).contains(&sent), "one AReq for a session");
            session = next;
        }
    }

    #[test]
    fn any_bytes_are_a_session_or_not(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert!(from_stored(&bytes).is_err());
    }

    /// A stored session with a byte of it changed is another session, or none; it does not panic.
    #[test]
    fn changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let (session, _) = walk(
            session(DeviceChannel::Browser),
            &[authenticate(), response("C"), results("Y")],
        );
        let mut bytes = serde_json::to_vec(&session).unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        if let Ok(read) = from_stored(&bytes) {
            let again = serde_json::to_vec(&read).unwrap();
            prop_assert_eq!(from_stored(&again).unwrap(), read);
        }
    }
}
