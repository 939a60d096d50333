//! Bounds on whole messages, and what an error says.

use serde_json::json;

use super::*;
use crate::{
    fault::{Component, ErrorCode},
    message::{About, Document, FailureKind, Known, MESSAGE_BYTES_MAX, MessageType},
};

#[test]
fn what_is_no_message() {
    let long = format!("{{\"messageType\":\"AReq\",\"a\":\"{}\"}}", "x".repeat(MESSAGE_BYTES_MAX));
    for bytes in ["", "[]", "{}", "{\"messageType\":\"XReq\"}", "{\"messageType\":1}", &long] {
        let fault = Document::read(bytes.as_bytes()).unwrap_err();
        assert_eq!(fault.code, ErrorCode::MessageInvalid);
    }
}

#[test]
fn another_message_is_not_taken_for_the_one_that_was_asked_for() {
    for case in few_cases() {
        let mut object = case.least();
        let kind = if case.label.starts_with("PReq") { "PRes" } else { "PReq" };
        object.insert("messageType".to_owned(), kind.into());
        let fault = case.parse(&object).unwrap_err();
        assert_eq!(fault, Fault::at(ErrorCode::MessageInvalid, "messageType"));
    }
}

#[test]
fn a_message_of_another_version_than_the_question_is_refused() {
    let case = cases().into_iter().find(|it| it.label.starts_with("ARes")).unwrap();
    let mut object = case.least();
    object.insert("messageVersion".to_owned(), "2.2.0".into());
    let fault = case.parse(&object).unwrap_err();
    assert_eq!(fault, Fault::at(ErrorCode::FormatInvalid, "messageVersion"));
}

#[test]
fn a_critical_extension_must_be_known() {
    let critical = json!([{
        "name": "n", "id": "A000000042_CB", "criticalityIndicator": true, "data": {"a": "b"},
    }]);
    for mut case in few_cases() {
        if !case.fields.iter().any(|it| it.name == "messageExtension") {
            continue;
        }
        let mut object = case.least();
        object.insert("messageExtension".to_owned(), critical.clone());
        let fault = case.parse(&object).unwrap_err();
        let expected = Fault::at(ErrorCode::CriticalExtensionUnknown, "messageExtension");
        assert_eq!(fault, expected, "{}", case.label);
        for known in [Known::These(&["A000000042_CB"]), Known::All] {
            case.scene.extensions = known;
            assert!(case.parse(&object).is_ok(), "{}", case.label);
        }
    }
}

#[test]
fn nothing_is_printed_but_names() {
    let case = cases().into_iter().find(|it| it.label.starts_with("AReq")).unwrap();
    let bytes = serde_json::to_vec(&case.most()).unwrap();
    let request = AReq::parse(&bytes, &case.scene).unwrap();
    let printed = format!("{request:?} {:?} {:?}", request.card_number, Document::read(&bytes));
    assert!(printed.contains("\"acctNumber\"") && !printed.contains("1111111111111"), "{printed}");
    assert!(!printed.contains("a@b.example"));
}

#[test]
fn an_error_is_answered_with_what_could_be_read() {
    let case = cases().into_iter().find(|it| it.label.starts_with("RReq")).unwrap();
    let mut object = case.least();
    object.remove("transStatus");
    let bytes = serde_json::to_vec(&object).unwrap();
    let document = Document::read(&bytes).unwrap();
    let fault = document.read_as::<RReq>(&case.scene).unwrap_err();
    let about = About { document: Some(&document), expected: None };
    let error = Erro::answering(&fault, Component::Server, &about);
    let written: Value = serde_json::from_slice(&error.to_json()).unwrap();
    let id = object.get("threeDSServerTransID").unwrap();
    assert_eq!(
        written,
        json!({
            "messageType": "Erro", "messageVersion": "2.1.0", "errorCode": "201",
            "errorComponent": "S", "errorDescription": "required data element missing",
            "errorDetail": "transStatus", "errorMessageType": "RReq",
            "threeDSServerTransID": id, "acsTransID": id, "dsTransID": id, "sdkTransID": id,
        })
    );
    assert!(Erro::parse(&error.to_json(), &case.scene).is_ok());
    assert_eq!(error.failure_kind(), FailureKind::RequestInvalid);
}

#[test]
fn an_error_about_nothing_that_could_be_read() {
    let about = About { document: None, expected: Some(MessageType::RReq) };
    let fault = Fault::of(ErrorCode::MessageInvalid);
    let error = Erro::answering(&fault, Component::Server, &about);
    assert_eq!(error.message_type.as_ref().unwrap().expose(), "RReq");
    assert_eq!(error.detail.as_ref().unwrap().expose(), "message received invalid");
    assert!(error.check(&Scene::of(Version::V220)).is_ok());
}
