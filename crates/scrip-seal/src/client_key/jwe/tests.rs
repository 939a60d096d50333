//! The strict parser of JWEs.

use super::*;

const EPK: &str =
    r#"{"kty":"OKP","crv":"X25519","x":"tLfTXJRuchttGu5wALjdChxQ9vQS9Zd2ciTv_pevKAY"}"#;
const NONCE: &str = "UkLP9J_0NU0qdBK0";
const TAG: &str = "CnJIWx1Xz1FCGOoW0hCAZA";

fn header(members: &str) -> String {
    URL_SAFE_NO_PAD.encode(members.replace("EPK", EPK))
}

fn valid_header() -> String {
    header(r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK}"#)
}

#[track_caller]
fn assert_rejected(text: &str, expected: JweError) {
    assert_eq!(Jwe::parse(text).map(|_| ()), Err(expected), "{text:.200}");
}

#[test]
fn jwe_needs_five_parts() {
    let header = valid_header();
    for text in [
        String::new(),
        header.clone(),
        format!("{header}..{NONCE}.AAAA"),
        format!("{header}..{NONCE}.AAAA.{TAG}."),
        format!("{header}..{NONCE}.AAAA.{TAG}.AAAA"),
    ] {
        assert_rejected(&text, JweError::Parts);
    }
    assert!(Jwe::parse(&format!("{header}..{NONCE}.AAAA.{TAG}")).is_ok());
    assert!(Jwe::parse(&format!("{header}..{NONCE}..{TAG}")).is_ok(), "an empty plaintext");
}

#[test]
fn header_with_other_members_or_algorithms_is_rejected() {
    let cases = [
        ("", JweError::Header),
        ("null", JweError::Header),
        ("[]", JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK} {}"#, JweError::Header),
        (r#"{"enc":"A256GCM","kid":"k","epk":EPK}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","kid":"k","epk":EPK}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","epk":EPK}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k"}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":7,"epk":EPK}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","kid":"l","epk":EPK}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK,"crit":[]}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK,"zip":"DEF"}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK,"apu":"QQ"}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK,"apv":"QQ"}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK,"typ":"JWE"}"#, JweError::Header),
        (r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":EPK,"jwk":EPK}"#, JweError::Header),
        (r#"{"alg":"dir","enc":"A256GCM","kid":"k","epk":EPK}"#, JweError::Algorithm),
        (r#"{"alg":"none","enc":"A256GCM","kid":"k","epk":EPK}"#, JweError::Algorithm),
        (r#"{"alg":"ECDH-ES+A256KW","enc":"A256GCM","kid":"k","epk":EPK}"#, JweError::Algorithm),
        (r#"{"alg":"ecdh-es","enc":"A256GCM","kid":"k","epk":EPK}"#, JweError::Algorithm),
        (r#"{"alg":"ECDH-ES","enc":"A128GCM","kid":"k","epk":EPK}"#, JweError::Algorithm),
        (r#"{"alg":"ECDH-ES","enc":"A256CBC-HS512","kid":"k","epk":EPK}"#, JweError::Algorithm),
    ];
    for (members, expected) in cases {
        assert_rejected(&format!("{}..{NONCE}.AAAA.{TAG}", header(members)), expected);
    }
}

#[test]
fn ephemeral_key_of_another_form_is_rejected() {
    let x = "tLfTXJRuchttGu5wALjdChxQ9vQS9Zd2ciTv_pevKAY";
    let cases = [
        (format!(r#"{{"kty":"EC","crv":"X25519","x":"{x}"}}"#), JweError::EphemeralKey),
        (format!(r#"{{"kty":"OKP","crv":"X448","x":"{x}"}}"#), JweError::EphemeralKey),
        (format!(r#"{{"kty":"OKP","crv":"X25519","x":"{x}A"}}"#), JweError::EphemeralKey),
        (r#"{"kty":"OKP","crv":"X25519","x":""}"#.to_owned(), JweError::EphemeralKey),
        (format!(r#"{{"kty":"OKP","crv":"X25519","x":"{x}","d":"{x}"}}"#), JweError::Header),
        (format!(r#"{{"kty":"OKP","crv":"X25519","x":"{x}","y":"{x}"}}"#), JweError::Header),
        (format!(r#"{{"kty":"OKP","crv":"X25519","x":"{x}","x":"{x}"}}"#), JweError::Header),
        (r#""X25519""#.to_owned(), JweError::Header),
        // The last character has bits beyond the 32 bytes.
        (format!(r#"{{"kty":"OKP","crv":"X25519","x":"{}Z"}}"#, &x[..42]), JweError::Encoding),
    ];
    for (epk, expected) in cases {
        let header = header(r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"k","epk":KEY}"#
            .replace("KEY", &epk)
            .as_str());
        assert_rejected(&format!("{header}..{NONCE}.AAAA.{TAG}"), expected);
    }
}

#[test]
fn parts_of_another_encoding_or_length_are_rejected() {
    let header = valid_header();
    let cases = [
        (format!("{header}=..{NONCE}.AAAA.{TAG}"), JweError::Encoding),
        (format!("{header}.AAAA.{NONCE}.AAAA.{TAG}"), JweError::EncryptedKey),
        (format!("{header}..{NONCE}.AAA=.{TAG}"), JweError::Encoding),
        (format!("{header}..{NONCE}.AA+A.{TAG}"), JweError::Encoding),
        (format!("{header}..{NONCE}.AA A.{TAG}"), JweError::Encoding),
        (format!("{header}..{NONCE}.AAB.{TAG}"), JweError::Encoding),
        (format!("{header}..{NONCE}.A.{TAG}"), JweError::Encoding),
        (format!("{header}...AAAA.{TAG}"), JweError::NonceOrTag),
        (format!("{header}..{NONCE}AA.AAAA.{TAG}"), JweError::NonceOrTag),
        (format!("{header}..AAAA.AAAA.{TAG}"), JweError::NonceOrTag),
        (format!("{header}..{NONCE}.AAAA."), JweError::NonceOrTag),
        (format!("{header}..{NONCE}.AAAA.{}", &TAG[..16]), JweError::NonceOrTag),
        (format!("{header}..{NONCE}.AAAA.{TAG}AA"), JweError::NonceOrTag),
    ];
    for (text, expected) in cases {
        assert_rejected(&text, expected);
    }
}

#[test]
fn header_and_plaintext_have_size_limits() {
    let with_key_id = |length: usize| {
        let members = r#"{"alg":"ECDH-ES","enc":"A256GCM","kid":"KID","epk":EPK}"#;
        header(&members.replace("KID", &"k".repeat(length)))
    };
    let fits = (1..1024).rev().map(with_key_id).find(|it| it.len() <= 1024).unwrap();
    assert!(Jwe::parse(&format!("{fits}..{NONCE}.AAAA.{TAG}")).is_ok());
    let header_too_long = (1..1024).map(with_key_id).find(|it| it.len() > 1024).unwrap();
    assert_rejected(&format!("{header_too_long}..{NONCE}.AAAA.{TAG}"), JweError::HeaderSize);

    let header = valid_header();
    let with_plaintext = |length: usize| {
        format!("{header}..{NONCE}.{}.{TAG}", URL_SAFE_NO_PAD.encode(vec![0; length]))
    };
    assert!(Jwe::parse(&with_plaintext(65_536)).is_ok());
    for length in [65_537, 65_538, 65_540, 100_000] {
        assert_rejected(&with_plaintext(length), JweError::PlaintextSize);
    }
}
