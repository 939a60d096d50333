//! Form fields that browsers post: the input as text, and the input encoded in base64url.

#![no_main]

use libfuzzer_sys::fuzz_target;
use scrip_threeds::{
    encoding::{MethodData, decode, decode_creq, decode_cres, encode, encode_message},
    format::Version,
    message::TransactionContext,
};

fuzz_target!(|bytes: &[u8]| {
    let encoded = encode(bytes);
    assert_eq!(decode(&encoded).as_deref().map(Vec::as_slice), Ok(bytes));
    check_field(&encoded);
    if let Ok(text) = std::str::from_utf8(bytes) {
        check_field(text);
    }
});

fn check_field(text: &str) {
    if let Ok(data) = MethodData::decode(text) {
        assert_eq!(MethodData::decode(&data.encode()), Ok(data));
    }
    if let Ok(response) = decode_cres(text) {
        let encoded = encode_message(&response);
        assert_eq!(decode_cres(&encoded).map(|it| encode_message(&it)), Ok(encoded));
    }
    for version in [Version::V210, Version::V220] {
        let transaction = TransactionContext::for_version(version);
        if let Ok(request) = decode_creq(text, &transaction) {
            let encoded = encode_message(&request);
            let decoded = decode_creq(&encoded, &transaction);
            assert_eq!(decoded.map(|it| encode_message(&it)), Ok(encoded));
        }
    }
}
