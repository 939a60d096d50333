//! A client's request and device: read, checked by the rules, and made into an `AReq` that the other
//! side can read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_threeds::{
    code::{Device, MethodCompletion, Scheme, SessionType},
    format::{CardNumber, TransId, Version},
    message::{AReq, Document, Known, Message, Scene},
    request::{
        AuthenticateRequest, Card, DeviceInfo, Question, Reader, Server, Situation, Strictness,
        Subject, completed, make_areq, violations,
    },
};
use serde_json::Value;

const VARIANTS: [(SessionType, Device); 3] = [
    (SessionType::Customer, Device::Browser),
    (SessionType::Customer, Device::Mobile),
    (SessionType::Merchant, Device::Browser),
];

// `{"request": {…}, "device": {…}}`
fuzz_target!(|bytes: &[u8]| {
    let Ok(Value::Object(mut whole)) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut reader = Reader::default();
    let request: Option<AuthenticateRequest> = reader.attribute(&mut whole, "request");
    let device_info: Option<DeviceInfo> = reader.attribute(&mut whole, "device");
    if !reader.violations().is_empty() {
        return;
    }
    let (request, device_info) = (request.unwrap_or_default(), device_info.unwrap_or_default());
    let lenient = Strictness::Lenient {
        scheme: Scheme::Visa,
        server_name: "Scrip",
        requestor_url: "https://vault.example",
    };
    for strictness in [Strictness::Strict, lenient] {
        let request = completed(&request, strictness);
        for (session, device) in VARIANTS {
            for version in [Version::V210, Version::V220] {
                make(&Situation {
                    request: &request,
                    device_info: &device_info,
                    session,
                    device,
                    version,
                });
            }
        }
    }
});

fn make(situation: &Situation<'_>) {
    let subject = Subject {
        id: TransId::parse("8a880dc0-d2d2-4067-bcb1-b08d1690b26e").expect("an id"),
        method: MethodCompletion::Completed,
    };
    let server = Server {
        reference_number: "reference".to_owned(),
        operator_id: None,
        results_url: "https://vault.example/3ds/results/secret".to_owned(),
        notification_url: "https://vault.example/3ds/n".to_owned(),
    };
    let number = CardNumber::parse("4000020000000000").expect("a number");
    let card = Card { number, expiry: Some("3012".to_owned()) };
    let broken = violations(situation);
    let question =
        Question { situation: *situation, subject: &subject, server: &server, card: &card };
    let Ok(message) = make_areq(&question) else { return };
    assert!(broken.is_empty(), "a message was made in spite of {broken:?}");
    let scene = Scene { extensions: Known::All, ..Scene::of(situation.version) };
    let read = Document::read(&message.to_json()).and_then(|it| it.read_as::<AReq>(&scene));
    assert_eq!(*read.expect("what is sent can be read").to_json(), *message.to_json());
}
