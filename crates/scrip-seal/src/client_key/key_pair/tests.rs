//! Key pairs of clients: recorded vectors of other implementations, low-order points and hostile texts.

use std::iter;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::{collection::vec, prelude::*};

use super::*;

const PLAINTEXT: &[u8] = br#"{"number":"4242424242424242"}"#;
const KEY_ID: &str = "5b493235-6917-4307-906a-2cd6f1a90b13";

/// Recorded from jose 6.2 (Node.js), for the key pair of [`recorded_key_pair`].
const JOSE: &str = "eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTI1NkdDTSIsImtpZCI6IjViNDkzMjM1LTY5MTctNDMwNy05MDZhLTJjZDZmMWE5MGIxMyIsImVwayI6eyJ4IjoiOEpGdWFOUjRudnNEWTRMejBnaUJORWZJNnBmVjRUM3AyVjhpTFduS1JRbyIsImNydiI6IlgyNTUxOSIsImt0eSI6Ik9LUCJ9fQ..EuH7js38RbOMFcX5.GWuigTm412hCOWaDibgNMG036HX3E1x4tlhugF8.YZRrTa5Yh_JgP0DHp-VS9w";
/// Recorded from jwcrypto 1.6 (Python), for the same key pair.
const JWCRYPTO: &str = "eyJhbGciOiJFQ0RILUVTIiwiZW5jIjoiQTI1NkdDTSIsImVwayI6eyJjcnYiOiJYMjU1MTkiLCJrdHkiOiJPS1AiLCJ4IjoicnZyMUt3X2dpNWNWbW9QZnFmMHFWWU1wQmZKRERDa21DY2FYRnUtSXgydyJ9LCJraWQiOiI1YjQ5MzIzNS02OTE3LTQzMDctOTA2YS0yY2Q2ZjFhOTBiMTMifQ..It1levAQFsJJUV8F.l64bIuv3Fcd-XZ9TxRtUeUBsoPuMEoF669BpoE4.FetzSe394rfz83_EC85wQQ";

/// The private key has the bytes 1 to 32.
fn recorded_key_pair() -> ClientKeyPair {
    ClientKeyPair::from_private_key(Secret::new((1..=32).collect())).unwrap()
}

/// Encrypts as a client does, with a shared secret that the caller has computed.
fn encrypt(ephemeral_key: &[u8], shared_secret: &[u8], plaintext: &[u8]) -> String {
    let header = format!(
        r#"{{"alg":"ECDH-ES","enc":"A256GCM","kid":"{KEY_ID}","epk":{{"kty":"OKP","crv":"X25519","x":"{}"}}}}"#,
        URL_SAFE_NO_PAD.encode(ephemeral_key)
    );
    let header = URL_SAFE_NO_PAD.encode(header);
    let key = derive_key(shared_secret).unwrap();
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).unwrap());
    let mut bytes = plaintext.to_vec();
    let nonce = Nonce::assume_unique_for_key([7; 12]);
    let tag =
        key.seal_in_place_separate_tag(nonce, Aad::from(header.as_bytes()), &mut bytes).unwrap();
    let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    format!("{header}..{}.{}.{}", encode(&[7; 12]), encode(&bytes), encode(tag.as_ref()))
}

/// Encrypts for the key pair.
fn encrypt_for(key_pair: &ClientKeyPair, plaintext: &[u8]) -> String {
    let ephemeral = PrivateKey::from_private_key(&X25519, &[9; 32]).unwrap();
    let public_key = key_pair.parse_private_key().unwrap().compute_public_key().unwrap();
    let public_key = UnparsedPublicKey::new(&X25519, public_key.as_ref().to_vec());
    let shared_secret = agree(&ephemeral, public_key, (), |it| Ok(it.to_vec())).unwrap();
    let ephemeral_key = ephemeral.compute_public_key().unwrap();
    encrypt(ephemeral_key.as_ref(), &shared_secret, plaintext)
}

fn open(key_pair: &ClientKeyPair, text: &str) -> Result<Vec<u8>, JweError> {
    Jwe::parse(text).and_then(|it| key_pair.open(&it)).map(|it| it.expose().to_vec())
}

#[test]
fn jwes_of_other_libraries_are_opened() {
    for text in [JOSE, JWCRYPTO] {
        assert_eq!(Jwe::parse(text).unwrap().key_id(), KEY_ID);
        assert_eq!(open(&recorded_key_pair(), text).unwrap(), PLAINTEXT);
    }
}

#[test]
fn public_key_pem_contains_the_raw_public_key() {
    let pem = recorded_key_pair().public_key_pem().unwrap();
    let lines: Vec<_> = pem.lines().collect();
    // The same key in the JWK of Node.js: B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9_AsrhtHHw.
    let raw = "B6N8vBQgk8i3VdwbEOhstCY3StFqqFPtC9/AsrhtHHw=";
    assert_eq!(lines, ["-----BEGIN PUBLIC KEY-----", raw, "-----END PUBLIC KEY-----"]);
    assert_eq!(raw.len(), 44);
}

#[test]
fn jwe_opens_only_with_its_key_pair() {
    let key_pair = ClientKeyPair::create();
    let text = encrypt_for(&key_pair, PLAINTEXT);
    assert_eq!(open(&key_pair, &text).unwrap(), PLAINTEXT);
    assert_eq!(open(&ClientKeyPair::create(), &text), Err(JweError::Undecryptable));
    let copy = Secret::new(key_pair.private_key().expose().to_vec());
    let copy = ClientKeyPair::from_private_key(copy).unwrap();
    assert_eq!(open(&copy, &text).unwrap(), PLAINTEXT);
}

#[test]
fn private_key_of_another_length_is_rejected() {
    for length in [0, 31, 33, 64] {
        let secret = Secret::new(vec![7; length]);
        assert!(ClientKeyPair::from_private_key(secret).is_err(), "{length} bytes");
    }
}

/// With such a key the shared secret is zero for every private key, so a client would have
/// encrypted for everybody.
#[test]
fn ephemeral_keys_of_low_order_are_rejected() {
    let near_modulus = |first: u8| {
        let middle = iter::repeat_n(0xff, 30);
        iter::once(first).chain(middle).chain(iter::once(0x7f)).collect::<Vec<u8>>()
    };
    let small = |first: u8| iter::once(first).chain(iter::repeat_n(0, 31)).collect::<Vec<u8>>();
    let mut points =
        vec![small(0), small(1), near_modulus(0xec), near_modulus(0xed), near_modulus(0xee)];
    points.push(decode_hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"));
    points.push(decode_hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"));
    // The highest bit of a point is ignored.
    let with_high_bit: Vec<_> = points
        .iter()
        .map(|it| {
            let mut point = it.clone();
            *point.last_mut().unwrap() |= 0x80;
            point
        })
        .collect();
    points.extend(with_high_bit);
    for point in points {
        assert_eq!(point.len(), 32);
        // An attacker can compute the key, because the shared secret is zero.
        let text = encrypt(&point, &[0; 32], PLAINTEXT);
        let error = open(&ClientKeyPair::create(), &text);
        assert_eq!(error, Err(JweError::EphemeralKey), "{point:02x?}");
    }
}

fn decode_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().map(|it| it.to_digit(16).unwrap().try_into().unwrap()).collect();
    digits.chunks(2).map(|it| it[0] << 4 | it[1]).collect()
}

#[test]
fn altered_parts_are_not_opened() {
    let text = encrypt_for(&recorded_key_pair(), PLAINTEXT);
    let parts: Vec<_> = text.split('.').collect();
    for (at, part) in parts.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
        let mut bytes = URL_SAFE_NO_PAD.decode(part).unwrap();
        for flipped in 0..bytes.len() {
            bytes[flipped] ^= 1;
            let mut altered: Vec<_> = parts.iter().map(|it| (*it).to_owned()).collect();
            altered[at] = URL_SAFE_NO_PAD.encode(&bytes);
            assert!(
                open(&recorded_key_pair(), &altered.join(".")).is_err(),
                "byte {flipped} of {at}"
            );
            bytes[flipped] ^= 1;
        }
    }
}

#[test]
fn debug_output_shows_no_key() {
    assert_eq!(format!("{:?}", recorded_key_pair()), "ClientKeyPair");
    assert_eq!(format!("{:?}", Jwe::parse(JOSE).unwrap()), "Jwe(45 bytes)");
}

proptest! {
    #[test]
    fn any_plaintext_is_opened_unchanged(plaintext in vec(any::<u8>(), 0..300)) {
        let key_pair = ClientKeyPair::create();
        let text = encrypt_for(&key_pair, &plaintext);
        prop_assert_eq!(open(&key_pair, &text), Ok(plaintext));
    }

    #[test]
    fn any_text_is_rejected_without_a_panic(text in "\\PC{0,200}") {
        prop_assert!(open(&recorded_key_pair(), &text).is_err());
    }

    /// One replaced, removed or added character of a valid JWE.
    #[test]
    fn any_small_change_is_rejected(
        at in any::<prop::sample::Index>(),
        replacement in "[A-Za-z0-9_.=+/ -]{0,2}",
    ) {
        let at = at.index(JOSE.len());
        let (before, rest) = JOSE.split_at(at);
        let text = format!("{before}{replacement}{}", &rest[1..]);
        prop_assume!(text != JOSE);
        prop_assert!(open(&recorded_key_pair(), &text).is_err());
    }
}
