//! Limits of whole messages, and the content of errors.

use serde_json::json;

use super::*;
use crate::{
    fault::{Component, ErrorCode},
    message::{
        Document, ErroSubject, FailureKind, KnownExtensions, MESSAGE_BYTES_MAX, MessageType,
    },
};

#[test]
fn bytes_without_known_message_type_are_rejected() {
    let too_long =
        format!("{{\"messageType\":\"AReq\",\"a\":\"{}\"}}", "x".repeat(MESSAGE_BYTES_MAX));
    for bytes in ["", "[]", "{}", "{\"messageType\":\"XReq\"}", "{\"messageType\":1}", &too_long] {
        let fault = Document::parse(bytes.as_bytes()).unwrap_err();
        assert_eq!(fault.code, ErrorCode::MessageInvalid);
    }
}

#[test]
fn message_of_another_type_is_rejected() {
    for case in representative_cases() {
        let mut object = case.smallest_message();
        let message_type = if case.label.starts_with("PReq") { "PRes" } else { "PReq" };
        object.insert("messageType".to_owned(), message_type.into());
        let fault = case.parse(&object).unwrap_err();
        assert_eq!(fault, Fault::for_element(ErrorCode::MessageInvalid, "messageType"));
    }
}

#[test]
fn message_of_another_version_than_the_request_is_rejected() {
    let case = cases().into_iter().find(|it| it.label.starts_with("ARes")).unwrap();
    let mut object = case.smallest_message();
    object.insert("messageVersion".to_owned(), "2.2.0".into());
    let fault = case.parse(&object).unwrap_err();
    assert_eq!(fault, Fault::for_element(ErrorCode::FormatInvalid, "messageVersion"));
}

#[test]
fn unknown_critical_extension_is_rejected() {
    let critical_extension = json!([{
        "name": "n", "id": "A000000042_CB", "criticalityIndicator": true, "data": {"a": "b"},
    }]);
    for mut case in representative_cases() {
        if !case.fields.iter().any(|it| it.name == "messageExtension") {
            continue;
        }
        let mut object = case.smallest_message();
        object.insert("messageExtension".to_owned(), critical_extension.clone());
        let fault = case.parse(&object).unwrap_err();
        let expected = Fault::for_element(ErrorCode::CriticalExtensionUnknown, "messageExtension");
        assert_eq!(fault, expected, "{}", case.label);
        for known_extensions in [KnownExtensions::Ids(&["A000000042_CB"]), KnownExtensions::All] {
            case.transaction.known_extensions = known_extensions;
            assert!(case.parse(&object).is_ok(), "{}", case.label);
        }
    }
}

#[test]
fn debug_output_contains_only_element_names() {
    let case = cases().into_iter().find(|it| it.label.starts_with("AReq")).unwrap();
    let bytes = serde_json::to_vec(&case.largest_message()).unwrap();
    let request = parse_message::<AReq>(&bytes, &case.transaction).unwrap();
    let printed = format!("{request:?} {:?} {:?}", request.card_number, Document::parse(&bytes));
    assert!(printed.contains("\"acctNumber\"") && !printed.contains("1111111111111"), "{printed}");
    assert!(!printed.contains("a@b.example"));
}

#[test]
fn erro_repeats_ids_and_version_of_the_rejected_message() {
    let case = cases().into_iter().find(|it| it.label.starts_with("RReq")).unwrap();
    let mut object = case.smallest_message();
    object.remove("transStatus");
    let bytes = serde_json::to_vec(&object).unwrap();
    let document = Document::parse(&bytes).unwrap();
    let fault = document.parse_as::<RReq>(&case.transaction).unwrap_err();
    let subject = ErroSubject { document: Some(&document), expected: None };
    let error = Erro::for_fault(&fault, Component::Server, &subject);
    let erro_json: Value = serde_json::from_slice(&error.to_json()).unwrap();
    let id = object.get("threeDSServerTransID").unwrap();
    assert_eq!(
        erro_json,
        json!({
            "messageType": "Erro", "messageVersion": "2.1.0", "errorCode": "201",
            "errorComponent": "S", "errorDescription": "required data element missing",
            "errorDetail": "transStatus", "errorMessageType": "RReq",
            "threeDSServerTransID": id, "acsTransID": id, "dsTransID": id, "sdkTransID": id,
        })
    );
    assert!(parse_message::<Erro>(&error.to_json(), &case.transaction).is_ok());
    assert_eq!(error.failure_kind(), FailureKind::RequestInvalid);
}

#[test]
fn erro_for_unreadable_message_names_the_expected_type() {
    let subject = ErroSubject { document: None, expected: Some(MessageType::RReq) };
    let fault = Fault::new(ErrorCode::MessageInvalid);
    let error = Erro::for_fault(&fault, Component::Server, &subject);
    assert_eq!(error.message_type.as_ref().unwrap().expose(), "RReq");
    assert_eq!(error.detail.as_ref().unwrap().expose(), "message received invalid");
    assert!(error.check(&TransactionContext::for_version(Version::V220)).is_ok());
}
