//! Each way through, and what is refused on it.

use super::*;
use crate::{
    code::MethodCompletion,
    fault::{ErrorCode, Fault},
    message::RRes,
    webhook::EventType,
};

fn emit(event: EventType, status: Option<Status>) -> Effect {
    Effect::Emit { event, status }
}

fn browser() -> Session {
    session(DeviceChannel::Browser).with_method()
}

#[test]
fn the_method_tells_in_the_request() {
    let plain = session(DeviceChannel::Browser);
    let cases: [(Session, &[Event], MethodCompletion); 5] = [
        (plain, &[], MethodCompletion::Unavailable),
        (browser(), &[], MethodCompletion::NotCompleted),
        (browser(), &[method()], MethodCompletion::Completed),
        (browser(), &[Event::MethodTimeout], MethodCompletion::NotCompleted),
        (browser(), &[Event::MethodTimeout, method()], MethodCompletion::Completed),
    ];
    for (session, events, method) in cases {
        let events: Vec<_> = events.iter().cloned().chain([authenticate()]).collect();
        let (session, effects) = walk(session, &events);
        assert_eq!(effects, [Effect::SendRequest { method }]);
        assert!(matches!(session.phase, Phase::Authenticating { .. }));
    }
    // Only a browser can run the page.
    assert!(!session(DeviceChannel::Requestor).with_method().has_method);
}

#[test]
fn a_notification_is_told_once_and_for_its_own_session() {
    let (once, effects) = walk(browser(), &[method()]);
    assert_eq!(effects, [emit(EventType::MethodCompleted, None)]);
    assert_eq!(once.step(&method(), Moment(2)).unwrap(), (once.clone(), vec![]));
    let other = Event::MethodNotification { server_trans_id: id(OTHER) };
    let refusal = browser().step(&other, Moment(1)).unwrap_err();
    assert_eq!(refusal.fault(), Fault::at(ErrorCode::TransactionUnknown, "threeDSServerTransID"));
    let (asked, _) = walk(browser(), &[authenticate()]);
    assert_eq!(asked.step(&method(), Moment(2)).unwrap(), (asked.clone(), vec![]));
}

#[test]
fn an_answer_that_is_final() {
    for code in ["Y", "A", "N", "U", "R", "I"] {
        let (session, effects) = walk(browser(), &[authenticate(), response(code)]);
        let expected = Status::from_code(code);
        assert_eq!(effects, [emit(EventType::Authenticated, expected)]);
        assert!(session.is_final() && Some(status(&session)) == expected);
        assert_eq!(session.challenge_result(), Err(Refusal::NoResultYet));
        assert!(!session.has_expired(Moment(i64::MAX)), "a result is kept");
    }
}

#[test]
fn authenticating_twice_is_a_conflict() {
    let twice = |events: &[Event]| {
        let (session, _) = walk(browser(), events);
        session.step(&authenticate(), Moment(9)).unwrap_err()
    };
    for events in [
        &[authenticate()][..],
        &[authenticate(), response("Y")],
        &[authenticate(), response("C")],
        &[authenticate(), response("D")],
        &[authenticate(), Event::Timeout],
        &[authenticate(), Event::Error],
        &[authenticate(), response("C"), results("Y")],
    ] {
        assert_eq!(twice(events), Refusal::AlreadyAuthenticated, "{events:?}");
    }
}

#[test]
fn what_was_not_sent_can_be_sent_again() {
    for start in [&[][..], &[method()], &[Event::MethodTimeout]] {
        let (before, _) = walk(browser(), start);
        let (after, _) = walk(before.clone(), &[authenticate(), Event::RequestNotSent]);
        assert_eq!(after, before);
        let (done, _) = walk(after, &[authenticate(), response("Y")]);
        assert_eq!(status(&done), Status::Successful);
    }
    let refusal = browser().step(&Event::RequestNotSent, Moment(1)).unwrap_err();
    assert_eq!(refusal, Refusal::Unexpected);
}

#[test]
fn a_challenge_ends_with_its_result() {
    let (open, effects) = walk(browser(), &[authenticate(), response("C")]);
    assert_eq!(effects, [emit(EventType::Authenticated, Some(Status::Challenge))]);
    assert_eq!(open.step(&Event::ResultAsked, Moment(3)), Err(Refusal::NoResultYet));
    let (done, effects) = walk(open.clone(), &[results("A")]);
    let answer = Box::new(RRes::answering(&result([ID, ACS, DS], "A")));
    assert_eq!(effects, [Effect::AnswerResult { answer }]);
    let outcome = done.challenge_result().unwrap();
    assert_eq!((outcome.status, outcome.directory_status), (Status::Attempted, Status::Challenge));
    // The browser says that it went well; the result stays what it is.
    let (told, effects) = walk(done.clone(), &[notification("Y")]);
    assert_eq!(effects, [emit(EventType::ChallengeCompleted, Some(Status::Successful))]);
    assert_eq!(told.challenge_result(), done.challenge_result());
    assert_eq!(told.step(&notification("Y"), Moment(9)).unwrap(), (told.clone(), vec![]));
    let (_, effects) = walk(told, &[Event::ResultAsked]);
    assert_eq!(effects, [emit(EventType::ChallengeResultRetrieved, None)]);
}

#[test]
fn a_browser_that_comes_back_first_is_not_believed() {
    for word in ["Y", "N"] {
        let (early, effects) =
            walk(browser(), &[authenticate(), response("C"), notification(word)]);
        assert_eq!(effects, [], "nobody is told of what has no result");
        assert!(!early.is_final(), "the result decides");
        for (result, told) in [("Y", Status::Successful), ("N", Status::Failed)] {
            let (done, _) = walk(early.clone(), &[results(result)]);
            assert_eq!(status(&done).code(), result);
            // Whatever it says: told is what the result says, and once.
            let (done, effects) = done.step(&notification(word), Moment(9)).unwrap();
            assert_eq!(effects, [emit(EventType::ChallengeCompleted, Some(told))]);
            assert_eq!(done.step(&notification("Y"), Moment(9)).unwrap(), (done.clone(), vec![]));
        }
    }
}

#[test]
fn a_result_has_three_ids_and_a_secret() {
    let (open, _) = walk(browser(), &[authenticate(), response("C")]);
    for (ids, name) in [
        ([OTHER, ACS, DS], "threeDSServerTransID"),
        ([ID, OTHER, DS], "acsTransID"),
        ([ID, ACS, OTHER], "dsTransID"),
    ] {
        let result = Box::new(result(ids, "Y"));
        let event = Event::Result { result, secret: SecretFact::Matches };
        let refusal = open.step(&event, Moment(3)).unwrap_err();
        assert_eq!(refusal.fault(), Fault::at(ErrorCode::TransactionUnknown, name));
    }
    let event =
        Event::Result { result: Box::new(result([ID, ACS, DS], "Y")), secret: SecretFact::Differs };
    let refusal = open.step(&event, Moment(3)).unwrap_err();
    assert_eq!(refusal.fault().code, ErrorCode::TransactionUnknown, "as if there were no session");
    let capitals = result([&ID.to_uppercase(), &ACS.to_uppercase(), DS], "Y");
    let event = Event::Result { result: Box::new(capitals), secret: SecretFact::Matches };
    assert!(open.step(&event, Moment(3)).unwrap().0.is_final(), "ids may come back in capitals");
}

#[test]
fn an_answer_is_read_in_the_light_of_its_question() {
    assert_eq!(browser().scene(), None);
    let category = AuthenticationCategory::Payment;
    let expected = Some(Scene::of(Version::V220).within(DeviceChannel::Browser, category));
    for events in [&[authenticate()][..], &[authenticate(), response("C")]] {
        assert_eq!(walk(browser(), events).0.scene(), expected);
    }
}

#[test]
fn a_result_fits_its_question() {
    let (open, _) = walk(browser(), &[authenticate(), response("C")]);
    let mut other = result([ID, ACS, DS], "Y");
    other.category = AuthenticationCategory::NonPayment;
    let mut older = result([ID, ACS, DS], "Y");
    older.message_version = Version::V210;
    let mut open_end = result([ID, ACS, DS], "Y");
    open_end.status = Status::Informational;
    for (result, code, name) in [
        (other, ErrorCode::TransactionDataInvalid, "messageCategory"),
        (older, ErrorCode::FormatInvalid, "messageVersion"),
        (open_end, ErrorCode::FormatInvalid, "transStatus"),
    ] {
        let event = Event::Result { result: Box::new(result), secret: SecretFact::Matches };
        let refusal = open.step(&event, Moment(3)).unwrap_err();
        assert_eq!(refusal, Refusal::Unfitting(Fault::at(code, name)));
    }
}

#[test]
fn a_result_for_no_challenge_or_a_second_time() {
    for events in [
        &[][..],
        &[authenticate()],
        &[authenticate(), response("Y")],
        &[authenticate(), response("C"), results("Y")],
        &[authenticate(), Event::Timeout],
    ] {
        let (session, _) = walk(browser(), events);
        let refusal = session.step(&results("N"), Moment(9)).unwrap_err();
        assert_eq!(refusal, Refusal::NoChallenge, "{events:?}");
        assert_eq!(refusal.fault().code, ErrorCode::TransactionUnknown);
    }
}

#[test]
fn a_decoupled_challenge_has_its_time() {
    let (open, effects) = walk(session(DeviceChannel::Requestor), &[authenticate(), response("D")]);
    assert_eq!(effects, [emit(EventType::Authenticated, Some(Status::DecoupledChallenge))]);
    // Asked at 2, five minutes and half a minute more.
    let end = 2 + 5 * 60 + 30;
    let (done, effects) = open.step(&results("Y"), Moment(end - 1)).unwrap();
    assert_eq!(effects[1], emit(EventType::DecoupledChallengeNotification, None));
    assert_eq!(done.challenge_result().unwrap().status, Status::Successful);
    let late = open.step(&results("Y"), Moment(end)).unwrap_err();
    assert_eq!((late.clone(), late.fault().code), (Refusal::TooLate, ErrorCode::TimedOut));
    assert_eq!(open.step(&Event::Timeout, Moment(end - 1)).unwrap(), (open.clone(), vec![]));
    let (over, _) = open.step(&Event::Timeout, Moment(end)).unwrap();
    assert!(over.is_final() && status(&over) == Status::DecoupledChallenge);
    assert_eq!(over.step(&results("Y"), Moment(end)), Err(Refusal::TooLate));
}

#[test]
fn an_answer_fits_its_question() {
    let unfitting = |code, name| Err(Refusal::Unfitting(Fault::at(code, name)));
    let (alone, _) = walk(session(DeviceChannel::Requestor), &[authenticate()]);
    let refused = alone.step(&response("C"), Moment(2));
    assert_eq!(refused, unfitting(ErrorCode::FormatInvalid, "transStatus"));
    let undecided = Asked { decoupled_minutes: None, ..asked() };
    let (plain, _) = walk(browser(), &[Event::Authenticate { asked: undecided }]);
    let refused = plain.step(&response("D"), Moment(2));
    assert_eq!(refused, unfitting(ErrorCode::TransactionDataInvalid, "transStatus"));
    let old = Asked { version: Version::V210, ..asked() };
    let (older, _) = walk(browser(), &[Event::Authenticate { asked: old }]);
    let refused = older.step(&response("Y"), Moment(2));
    assert_eq!(refused, unfitting(ErrorCode::FormatInvalid, "messageVersion"));
    let foreign = Event::Response { answer: Box::new(answer(OTHER, "Y")) };
    assert!(matches!(plain.step(&foreign, Moment(2)), Err(Refusal::OtherSession(_))));
    // What cannot be believed spends the session all the same.
    let (spent, _) = walk(plain, &[Event::Error]);
    assert!(spent.is_final());
    assert_eq!(browser().step(&response("Y"), Moment(1)), Err(Refusal::Unexpected));
}

#[test]
fn an_app_tells_of_itself_first() {
    let app = session(DeviceChannel::App);
    assert_eq!(app.step(&authenticate(), Moment(1)), Err(Refusal::DeviceMissing));
    let (asked, _) = walk(app, &[Event::DeviceInfo, authenticate()]);
    assert_eq!(asked.step(&Event::DeviceInfo, Moment(3)), Err(Refusal::TooLateForDevice));
}

#[test]
fn sessions_expire_until_they_are_asked_for() {
    let end = Moment(3600);
    for events in [&[][..], &[method()], &[Event::MethodTimeout]] {
        let (session, _) = walk(browser(), events);
        assert!(!session.has_expired(Moment(3599)) && session.has_expired(end));
        assert_eq!(session.step(&authenticate(), end), Err(Refusal::Expired));
        assert_eq!(session.step(&method(), end), Err(Refusal::Expired));
        assert_eq!(session.step(&Event::Expire, Moment(3599)).unwrap().0, session);
        let (over, _) = session.step(&Event::Expire, end).unwrap();
        assert_eq!(over.phase, Phase::Expired);
        assert_eq!(over.step(&method(), Moment(1)), Err(Refusal::Expired), "whatever the clock");
    }
    // What is under way is not cut off, and given up when its process must be gone.
    let (asked, _) = walk(browser(), &[authenticate()]);
    assert_eq!(asked.step(&response("Y"), Moment(9999)).map(|it| it.0.is_final()), Ok(true));
    assert_eq!(asked.step(&Event::Expire, Moment(60)).unwrap().0, asked);
    let (spent, _) = asked.step(&Event::Expire, Moment(61)).unwrap();
    assert!(matches!(spent.phase, Phase::Failed { failure: Failure::FateUnknown, .. }));
}

#[test]
fn stored_bytes_that_are_not_ours() {
    let (session, _) = walk(browser(), &[authenticate(), response("C"), results("Y")]);
    let bytes = serde_json::to_vec(&session).unwrap();
    assert_eq!(from_stored(&bytes).unwrap(), session);
    for wrong in [&[][..], &bytes[..bytes.len() - 1], &bytes[1..], b"{}"] {
        assert!(from_stored(wrong).is_err());
    }
    let mut value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    value["more"] = 1.into();
    assert!(from_stored(value.to_string().as_bytes()).is_err(), "nothing is lost unseen");
}
