//! Each path through the phases, and the rejections on it.

use super::*;
use crate::{
    code::MethodCompletion,
    fault::{ErrorCode, Fault},
    message::RRes,
    session::WebhookEventType,
};

fn emit_effect(event: WebhookEventType, status: Option<Status>) -> StateMachineEffect {
    StateMachineEffect::Emit { event, status }
}

fn browser_session() -> ThreeDsSession {
    new_session(DeviceChannel::Browser).with_method()
}

#[test]
fn areq_reports_the_method_state() {
    let without_method = new_session(DeviceChannel::Browser);
    let cases: [(ThreeDsSession, &[StateMachineEvent], MethodCompletion); 5] = [
        (without_method, &[], MethodCompletion::Unavailable),
        (browser_session(), &[], MethodCompletion::NotCompleted),
        (browser_session(), &[method_event()], MethodCompletion::Completed),
        (browser_session(), &[StateMachineEvent::MethodTimeout], MethodCompletion::NotCompleted),
        (
            browser_session(),
            &[StateMachineEvent::MethodTimeout, method_event()],
            MethodCompletion::Completed,
        ),
    ];
    for (session, events, method) in cases {
        let events: Vec<_> = events.iter().cloned().chain([authenticate_event()]).collect();
        let (session, effects) = apply_events(session, &events);
        assert_eq!(effects, [StateMachineEffect::SendAReq { method }]);
        assert!(matches!(session.phase, ThreeDsPhase::Authenticating { .. }));
    }
    // Only a browser can run the page.
    assert!(!new_session(DeviceChannel::Requestor).with_method().has_method_page);
}

#[test]
fn method_notification_is_reported_once_for_its_session() {
    let (notified, effects) = apply_events(browser_session(), &[method_event()]);
    assert_eq!(effects, [emit_effect(WebhookEventType::MethodCompleted, None)]);
    assert_eq!(notified.step(&method_event(), UnixSeconds(2)).unwrap(), (notified.clone(), vec![]));
    let other_notification =
        StateMachineEvent::MethodNotification { server_trans_id: trans_id(OTHER_TRANS_ID) };
    let rejection = browser_session().step(&other_notification, UnixSeconds(1)).unwrap_err();
    assert_eq!(
        rejection.fault(),
        Fault::for_element(ErrorCode::TransactionUnknown, "threeDSServerTransID")
    );
    let (authenticating, _) = apply_events(browser_session(), &[authenticate_event()]);
    assert_eq!(
        authenticating.step(&method_event(), UnixSeconds(2)).unwrap(),
        (authenticating.clone(), vec![])
    );
}

#[test]
fn final_ares_ends_the_session() {
    for code in ["Y", "A", "N", "U", "R", "I"] {
        let (session, effects) =
            apply_events(browser_session(), &[authenticate_event(), response_event(code)]);
        let expected = Status::from_code(code);
        assert_eq!(effects, [emit_effect(WebhookEventType::Authenticated, expected)]);
        assert!(session.is_final() && Some(authentication_status(&session)) == expected);
        assert_eq!(session.challenge_result(), Err(ThreeDsRejection::ResultNotReady));
        assert!(!session.has_expired(UnixSeconds(i64::MAX)), "a result does not expire");
    }
}

#[test]
fn second_authenticate_is_rejected() {
    let authenticate_again = |events: &[StateMachineEvent]| {
        let (session, _) = apply_events(browser_session(), events);
        session.step(&authenticate_event(), UnixSeconds(9)).unwrap_err()
    };
    for events in [
        &[authenticate_event()][..],
        &[authenticate_event(), response_event("Y")],
        &[authenticate_event(), response_event("C")],
        &[authenticate_event(), response_event("D")],
        &[authenticate_event(), StateMachineEvent::Timeout],
        &[authenticate_event(), StateMachineEvent::Error],
        &[authenticate_event(), response_event("C"), result_event("Y")],
    ] {
        assert_eq!(
            authenticate_again(events),
            ThreeDsRejection::AlreadyAuthenticated,
            "{events:?}"
        );
    }
}

#[test]
fn unsent_areq_can_be_retried() {
    for start in [&[][..], &[method_event()], &[StateMachineEvent::MethodTimeout]] {
        let (started, _) = apply_events(browser_session(), start);
        let (retriable, _) = apply_events(
            started.clone(),
            &[authenticate_event(), StateMachineEvent::RequestNotSent],
        );
        assert_eq!(retriable, started);
        let (completed, _) = apply_events(retriable, &[authenticate_event(), response_event("Y")]);
        assert_eq!(authentication_status(&completed), Status::Successful);
    }
    let rejection =
        browser_session().step(&StateMachineEvent::RequestNotSent, UnixSeconds(1)).unwrap_err();
    assert_eq!(rejection, ThreeDsRejection::Unexpected);
}

#[test]
fn result_ends_the_challenge() {
    let (challenged, effects) =
        apply_events(browser_session(), &[authenticate_event(), response_event("C")]);
    assert_eq!(effects, [emit_effect(WebhookEventType::Authenticated, Some(Status::Challenge))]);
    assert_eq!(
        challenged.step(&StateMachineEvent::ResultRequested, UnixSeconds(3)),
        Err(ThreeDsRejection::ResultNotReady)
    );
    let (completed, effects) = apply_events(challenged.clone(), &[result_event("A")]);
    let response =
        Box::new(RRes::for_result(&rreq([SERVER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], "A")));
    assert_eq!(effects, [StateMachineEffect::RespondToResult { response }]);
    let outcome = completed.challenge_result().unwrap();
    assert_eq!((outcome.status, outcome.directory_status), (Status::Attempted, Status::Challenge));
    // The browser reports success, but the status of the result stays.
    let (reported, effects) = apply_events(completed.clone(), &[challenge_event("Y")]);
    assert_eq!(
        effects,
        [emit_effect(WebhookEventType::ChallengeCompleted, Some(Status::Successful))]
    );
    assert_eq!(reported.challenge_result(), completed.challenge_result());
    assert_eq!(
        reported.step(&challenge_event("Y"), UnixSeconds(9)).unwrap(),
        (reported.clone(), vec![])
    );
    let (_, effects) = apply_events(reported, &[StateMachineEvent::ResultRequested]);
    assert_eq!(effects, [emit_effect(WebhookEventType::ChallengeResultRetrieved, None)]);
}

#[test]
fn browser_notification_before_the_result_is_ignored() {
    for browser_status in ["Y", "N"] {
        let (notified, effects) = apply_events(
            browser_session(),
            &[authenticate_event(), response_event("C"), challenge_event(browser_status)],
        );
        assert_eq!(effects, [], "no event is emitted before the result");
        assert!(!notified.is_final(), "the result decides");
        for (result, status) in [("Y", Status::Successful), ("N", Status::Failed)] {
            let (completed, _) = apply_events(notified.clone(), &[result_event(result)]);
            assert_eq!(authentication_status(&completed).code(), result);
            // The event has the status of the result, whatever the browser reports, and is emitted
            // once.
            let (completed, effects) =
                completed.step(&challenge_event(browser_status), UnixSeconds(9)).unwrap();
            assert_eq!(effects, [emit_effect(WebhookEventType::ChallengeCompleted, Some(status))]);
            assert_eq!(
                completed.step(&challenge_event("Y"), UnixSeconds(9)).unwrap(),
                (completed.clone(), vec![])
            );
        }
    }
}

#[test]
fn result_requires_three_ids_and_the_secret() {
    let (challenged, _) =
        apply_events(browser_session(), &[authenticate_event(), response_event("C")]);
    for (ids, name) in [
        ([OTHER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], "threeDSServerTransID"),
        ([SERVER_TRANS_ID, OTHER_TRANS_ID, DS_TRANS_ID], "acsTransID"),
        ([SERVER_TRANS_ID, ACS_TRANS_ID, OTHER_TRANS_ID], "dsTransID"),
    ] {
        let result = Box::new(rreq(ids, "Y"));
        let event = StateMachineEvent::Result { result, secret: SecretCheck::Matches };
        let rejection = challenged.step(&event, UnixSeconds(3)).unwrap_err();
        assert_eq!(rejection.fault(), Fault::for_element(ErrorCode::TransactionUnknown, name));
    }
    let event = StateMachineEvent::Result {
        result: Box::new(rreq([SERVER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], "Y")),
        secret: SecretCheck::Differs,
    };
    let rejection = challenged.step(&event, UnixSeconds(3)).unwrap_err();
    assert_eq!(rejection.fault().code, ErrorCode::TransactionUnknown, "as for an unknown session");
    let capitals =
        rreq([&SERVER_TRANS_ID.to_uppercase(), &ACS_TRANS_ID.to_uppercase(), DS_TRANS_ID], "Y");
    let event =
        StateMachineEvent::Result { result: Box::new(capitals), secret: SecretCheck::Matches };
    assert!(
        challenged.step(&event, UnixSeconds(3)).unwrap().0.is_final(),
        "ids may be returned in upper case"
    );
}

#[test]
fn transaction_context_comes_from_the_authenticate_request() {
    assert_eq!(browser_session().transaction_context(), None);
    let category = AuthenticationCategory::Payment;
    let expected = Some(
        TransactionContext::for_version(Version::V220)
            .with_channel(DeviceChannel::Browser, category),
    );
    for events in [&[authenticate_event()][..], &[authenticate_event(), response_event("C")]] {
        assert_eq!(apply_events(browser_session(), events).0.transaction_context(), expected);
    }
}

#[test]
fn result_that_contradicts_the_request_is_rejected() {
    let (challenged, _) =
        apply_events(browser_session(), &[authenticate_event(), response_event("C")]);
    let mut other_category = rreq([SERVER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], "Y");
    other_category.category = AuthenticationCategory::NonPayment;
    let mut other_version = rreq([SERVER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], "Y");
    other_version.message_version = Version::V210;
    let mut not_final = rreq([SERVER_TRANS_ID, ACS_TRANS_ID, DS_TRANS_ID], "Y");
    not_final.status = Status::Informational;
    for (result, code, name) in [
        (other_category, ErrorCode::TransactionDataInvalid, "messageCategory"),
        (other_version, ErrorCode::FormatInvalid, "messageVersion"),
        (not_final, ErrorCode::FormatInvalid, "transStatus"),
    ] {
        let event =
            StateMachineEvent::Result { result: Box::new(result), secret: SecretCheck::Matches };
        let rejection = challenged.step(&event, UnixSeconds(3)).unwrap_err();
        assert_eq!(rejection, ThreeDsRejection::Mismatch(Fault::for_element(code, name)));
    }
}

#[test]
fn result_without_open_challenge_is_rejected() {
    for events in [
        &[][..],
        &[authenticate_event()],
        &[authenticate_event(), response_event("Y")],
        &[authenticate_event(), response_event("C"), result_event("Y")],
        &[authenticate_event(), StateMachineEvent::Timeout],
    ] {
        let (session, _) = apply_events(browser_session(), events);
        let rejection = session.step(&result_event("N"), UnixSeconds(9)).unwrap_err();
        assert_eq!(rejection, ThreeDsRejection::NoChallenge, "{events:?}");
        assert_eq!(rejection.fault().code, ErrorCode::TransactionUnknown);
    }
}

#[test]
fn decoupled_challenge_fails_after_its_deadline() {
    let (challenged, effects) = apply_events(
        new_session(DeviceChannel::Requestor),
        &[authenticate_event(), response_event("D")],
    );
    assert_eq!(
        effects,
        [emit_effect(WebhookEventType::Authenticated, Some(Status::DecoupledChallenge))]
    );
    // Requested at 2: five minutes and 30 seconds of grace.
    let deadline = 2 + 5 * 60 + 30;
    let (completed, effects) =
        challenged.step(&result_event("Y"), UnixSeconds(deadline - 1)).unwrap();
    assert_eq!(effects[1], emit_effect(WebhookEventType::DecoupledChallengeNotification, None));
    assert_eq!(completed.challenge_result().unwrap().status, Status::Successful);
    let rejection = challenged.step(&result_event("Y"), UnixSeconds(deadline)).unwrap_err();
    assert_eq!(
        (rejection.clone(), rejection.fault().code),
        (ThreeDsRejection::ResultTooLate, ErrorCode::TimedOut)
    );
    assert_eq!(
        challenged.step(&StateMachineEvent::Timeout, UnixSeconds(deadline - 1)).unwrap(),
        (challenged.clone(), vec![])
    );
    let (timed_out, _) =
        challenged.step(&StateMachineEvent::Timeout, UnixSeconds(deadline)).unwrap();
    assert!(
        timed_out.is_final() && authentication_status(&timed_out) == Status::DecoupledChallenge
    );
    assert_eq!(
        timed_out.step(&result_event("Y"), UnixSeconds(deadline)),
        Err(ThreeDsRejection::ResultTooLate)
    );
}

#[test]
fn ares_that_contradicts_the_request_is_rejected() {
    let mismatch = |code, name| Err(ThreeDsRejection::Mismatch(Fault::for_element(code, name)));
    let (merchant_session, _) =
        apply_events(new_session(DeviceChannel::Requestor), &[authenticate_event()]);
    let result = merchant_session.step(&response_event("C"), UnixSeconds(2));
    assert_eq!(result, mismatch(ErrorCode::FormatInvalid, "transStatus"));
    let without_decoupled = AuthenticationParameters { decoupled_minutes: None, ..parameters() };
    let (session_without_decoupled, _) = apply_events(
        browser_session(),
        &[StateMachineEvent::Authenticate { parameters: without_decoupled }],
    );
    let result = session_without_decoupled.step(&response_event("D"), UnixSeconds(2));
    assert_eq!(result, mismatch(ErrorCode::TransactionDataInvalid, "transStatus"));
    let version_210 = AuthenticationParameters { version: Version::V210, ..parameters() };
    let (session_210, _) = apply_events(
        browser_session(),
        &[StateMachineEvent::Authenticate { parameters: version_210 }],
    );
    let result = session_210.step(&response_event("Y"), UnixSeconds(2));
    assert_eq!(result, mismatch(ErrorCode::FormatInvalid, "messageVersion"));
    let foreign = StateMachineEvent::Response { ares: Box::new(ares(OTHER_TRANS_ID, "Y")) };
    assert!(matches!(
        session_without_decoupled.step(&foreign, UnixSeconds(2)),
        Err(ThreeDsRejection::OtherSession(_))
    ));
    // An invalid response still ends the session.
    let (failed, _) = apply_events(session_without_decoupled, &[StateMachineEvent::Error]);
    assert!(failed.is_final());
    assert_eq!(
        browser_session().step(&response_event("Y"), UnixSeconds(1)),
        Err(ThreeDsRejection::Unexpected)
    );
}

#[test]
fn app_session_requires_device_info_before_authenticate() {
    let app = new_session(DeviceChannel::App);
    assert_eq!(
        app.step(&authenticate_event(), UnixSeconds(1)),
        Err(ThreeDsRejection::DeviceInfoMissing)
    );
    let (authenticating, _) =
        apply_events(app, &[StateMachineEvent::DeviceInfo, authenticate_event()]);
    assert_eq!(
        authenticating.step(&StateMachineEvent::DeviceInfo, UnixSeconds(3)),
        Err(ThreeDsRejection::DeviceInfoTooLate)
    );
}

#[test]
fn only_unauthenticated_sessions_expire() {
    let expires_at = UnixSeconds(3600);
    for events in [&[][..], &[method_event()], &[StateMachineEvent::MethodTimeout]] {
        let (session, _) = apply_events(browser_session(), events);
        assert!(!session.has_expired(UnixSeconds(3599)) && session.has_expired(expires_at));
        assert_eq!(session.step(&authenticate_event(), expires_at), Err(ThreeDsRejection::Expired));
        assert_eq!(session.step(&method_event(), expires_at), Err(ThreeDsRejection::Expired));
        assert_eq!(session.step(&StateMachineEvent::Expire, UnixSeconds(3599)).unwrap().0, session);
        let (expired, _) = session.step(&StateMachineEvent::Expire, expires_at).unwrap();
        assert_eq!(expired.phase, ThreeDsPhase::Expired);
        assert_eq!(
            expired.step(&method_event(), UnixSeconds(1)),
            Err(ThreeDsRejection::Expired),
            "at any time"
        );
    }
    // An authentication in progress does not expire; it fails when its process must have died.
    let (authenticating, _) = apply_events(browser_session(), &[authenticate_event()]);
    assert_eq!(
        authenticating.step(&response_event("Y"), UnixSeconds(9999)).map(|it| it.0.is_final()),
        Ok(true)
    );
    assert_eq!(
        authenticating.step(&StateMachineEvent::Expire, UnixSeconds(60)).unwrap().0,
        authenticating
    );
    let (failed, _) = authenticating.step(&StateMachineEvent::Expire, UnixSeconds(61)).unwrap();
    assert!(matches!(
        failed.phase,
        ThreeDsPhase::Failed { failure: ThreeDsFailure::OutcomeUnknown, .. }
    ));
}

#[test]
fn foreign_stored_bytes_are_rejected() {
    let (session, _) = apply_events(
        browser_session(),
        &[authenticate_event(), response_event("C"), result_event("Y")],
    );
    let bytes = serde_json::to_vec(&session).unwrap();
    assert_eq!(from_stored(&bytes).unwrap(), session);
    for invalid_bytes in [&[][..], &bytes[..bytes.len() - 1], &bytes[1..], b"{}"] {
        assert!(from_stored(invalid_bytes).is_err());
    }
    let mut value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    value["more"] = 1.into();
    assert!(from_stored(value.to_string().as_bytes()).is_err(), "unknown attributes are rejected");
}
