//! A client's request and device information: parsed, checked by the rules, and built into an
//! `AReq` that the directory server can read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_threeds::{
    code::{Device, MethodCompletion, Scheme, ThreeDsSessionType},
    format::{CardNumber, TransId, Version},
    message::{AReq, Document, KnownExtensions, Message, TransactionContext},
    request::{
        AReqCard, AReqInput, AReqSession, AttributeReader, AuthenticateContext,
        AuthenticateRequest, DeviceInfo, ServerIdentity, Strictness, build_areq, fill_defaults,
        violations,
    },
};
use serde_json::Value;

const VARIANTS: [(ThreeDsSessionType, Device); 3] = [
    (ThreeDsSessionType::Customer, Device::Browser),
    (ThreeDsSessionType::Customer, Device::Mobile),
    (ThreeDsSessionType::Merchant, Device::Browser),
];

// `{"request": {…}, "device": {…}}`
fuzz_target!(|bytes: &[u8]| {
    let Ok(Value::Object(mut input)) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut reader = AttributeReader::default();
    let request: Option<AuthenticateRequest> = reader.attribute(&mut input, "request");
    let device_info: Option<DeviceInfo> = reader.attribute(&mut input, "device");
    if !reader.into_violations().is_empty() {
        return;
    }
    let (request, device_info) = (request.unwrap_or_default(), device_info.unwrap_or_default());
    let lenient = Strictness::Lenient {
        scheme: Scheme::Visa,
        server_name: "Scrip",
        requestor_url: "https://vault.example",
    };
    for strictness in [Strictness::Strict, lenient] {
        let request = fill_defaults(&request, strictness);
        for (session, device) in VARIANTS {
            for version in [Version::V210, Version::V220] {
                check_built_areq(&AuthenticateContext {
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

fn check_built_areq(context: &AuthenticateContext<'_>) {
    let session = AReqSession {
        id: TransId::parse("8a880dc0-d2d2-4067-bcb1-b08d1690b26e").expect("a valid id"),
        method_completion: MethodCompletion::Completed,
    };
    let server = ServerIdentity {
        reference_number: "reference".to_owned(),
        operator_id: None,
        results_url: "https://vault.example/3ds/results/secret".to_owned(),
        notification_url: "https://vault.example/3ds/n".to_owned(),
    };
    let number = CardNumber::parse("4000020000000000").expect("a valid card number");
    let card = AReqCard { number, expiry: Some("3012".to_owned()) };
    let violations = violations(context);
    let input = AReqInput { context: *context, session: &session, server: &server, card: &card };
    let Ok(message) = build_areq(&input) else { return };
    assert!(violations.is_empty(), "an AReq was built despite {violations:?}");
    let transaction = TransactionContext {
        known_extensions: KnownExtensions::All,
        ..TransactionContext::for_version(context.version)
    };
    let parsed =
        Document::parse(&message.to_json()).and_then(|it| it.parse_as::<AReq>(&transaction));
    assert_eq!(*parsed.expect("a built AReq can be parsed").to_json(), *message.to_json());
}
