//! Recipients, and files that a reader of our own and the program `age` decrypt.

use std::{fs, iter, process::Command};

use aws_lc_rs::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, KeyType, Salt},
    hmac,
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use proptest::{collection::vec, prelude::*};

use super::*;

/// Recorded from age-keygen 1.1.1. The key pair is for tests only.
const RECIPIENT: &str = "age1hl629fjyxgp0mr78xrlx82dwej7fswctfd575qfh9hjgsvwslypsqlcvm0";
const IDENTITY: &str = "AGE-SECRET-KEY-19J4AM8VQAX4MX9XH66LJFKCWH92MGURZCSS72XLA4U893DKJN4SSTJH2AU";
/// Recorded from age 1.1.1, for the same key pair.
const RECORDED_FILE: &str = "\
-----BEGIN AGE ENCRYPTED FILE-----
YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBWQWNxNXZmejJ6UU0vOGRX
TW45cFQzMGI1Q1JKcmExcjZTYlRIYUVSTlVvClhib0xRc25lSmNickZ4VVcxM2Nk
a2s1bGxCZnFzVlNnOFVVbzBVbDAzc1kKLS0tIGtySldOMWhnMnNoVjBiOTBxdHcv
Z2hOckZ3TkcydWVqL1d2UWlNai9ZYkUKtYh1TP3f9AuJ3jEnttRfXExiueE3t/yW
Gbo9ZQ0BGBwqTxMr3VzfkLiiAelfC2M69Lyn3G9RCa7gzg==
-----END AGE ENCRYPTED FILE-----
";
const RECORDED_PLAINTEXT: &[u8] = b"scrip1-0123-abcd-1-3-share";
/// Lengths at the borders of chunks, and of lines of the armor.
const LENGTHS: [usize; 12] = [0, 1, 2, 3, 24, 48, 100, 65_535, 65_536, 65_537, 131_072, 200_000];

/// Encodes five bits as a symbol each, with a checksum.
fn encode_bech32(prefix: &str, groups: &[u8]) -> String {
    let alphabet = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    let symbols = |groups: &[u8]| -> String {
        groups.iter().map(|it| char::from(alphabet[usize::from(*it)])).collect()
    };
    // The code is linear, so the checksum is the difference between this remainder and 1.
    let mut data = groups.to_vec();
    data.extend([0; 6]);
    let remainder = remainder(prefix, &data) ^ 1;
    data.truncate(groups.len());
    data.extend([25, 20, 15, 10, 5, 0].map(|shift| u8::try_from(remainder >> shift & 31).unwrap()));
    format!("{prefix}1{}", symbols(&data))
}

/// The groups of five bits of 32 bytes. The last group has four unused bits.
fn to_groups(bytes: &[u8], unused_bits: u8) -> Vec<u8> {
    let bits: Vec<u8> =
        bytes.iter().flat_map(|it| (0..8).rev().map(move |shift| it >> shift & 1)).collect();
    let mut groups: Vec<u8> = bits
        .chunks(5)
        .map(|it| it.iter().chain(iter::repeat(&0)).take(5).fold(0, |group, bit| group << 1 | bit))
        .collect();
    *groups.last_mut().unwrap() |= unused_bits;
    groups
}

fn encode_recipient(public_key: &[u8]) -> String {
    encode_bech32("age", &to_groups(public_key, 0))
}

/// The private key of the text of an identity.
fn parse_identity(text: &str) -> PrivateKey {
    let text = text.to_lowercase();
    let data = parse_symbols(text.strip_prefix("age-secret-key-1").unwrap()).unwrap();
    let bytes = to_bytes(verify("age-secret-key-", &data).unwrap()).unwrap();
    PrivateKey::from_private_key(&X25519, &bytes).unwrap()
}

fn derive(key: &[u8], salt: &[u8], info: &str) -> [u8; 32] {
    struct Length;
    impl KeyType for Length {
        fn len(&self) -> usize {
            32
        }
    }
    let mut derived = [0; 32];
    let prk = Salt::new(HKDF_SHA256, salt).extract(key);
    prk.expand(&[info.as_bytes()], Length).unwrap().fill(&mut derived).unwrap();
    derived
}

fn open(key: &[u8], nonce: [u8; 12], ciphertext: &[u8]) -> Option<Vec<u8>> {
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).unwrap());
    let mut bytes = ciphertext.to_vec();
    let nonce = Nonce::assume_unique_for_key(nonce);
    Some(key.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?.to_vec())
}

/// Removes the armor. Every line except the last one must have 64 characters.
fn remove_armor(text: &str) -> Option<Vec<u8>> {
    let text = text.strip_prefix("-----BEGIN AGE ENCRYPTED FILE-----\n")?;
    let text = text.strip_suffix("\n-----END AGE ENCRYPTED FILE-----\n")?;
    let lines: Vec<_> = text.split('\n').collect();
    let (last, full_lines) = lines.split_last()?;
    let is_strict = full_lines.iter().all(|it| it.len() == 64) && (1..=64).contains(&last.len());
    STANDARD.decode(lines.concat()).ok().filter(|_| is_strict)
}

/// A reader of age files, written from the specification.
fn decrypt(identity: &PrivateKey, text: &str) -> Option<Vec<u8>> {
    let file = remove_armor(text)?;
    let mark = file.windows(5).position(|it| it == b"\n--- ")?;
    let (stanza, rest) = file.split_at(mark);
    let (mac, payload) = rest[5..].split_at_checked(44)?;
    let header = [stanza, b"\n---"].concat();
    let mac = str::from_utf8(mac).ok()?.strip_suffix('\n')?;
    let stanza = str::from_utf8(stanza).ok()?.strip_prefix("age-encryption.org/v1\n-> X25519 ")?;
    let (share, body) = stanza.split_once('\n')?;
    let share = STANDARD_NO_PAD.decode(share).ok()?;
    let body = STANDARD_NO_PAD.decode(body).ok().filter(|it| it.len() == 32)?;

    let salt = [&share, identity.compute_public_key().ok()?.as_ref()].concat();
    let peer = UnparsedPublicKey::new(&X25519, &share);
    let info = "age-encryption.org/v1/X25519";
    let wrap_key = agree(identity, peer, (), |it| Ok(derive(it, &salt, info))).ok()?;
    let file_key = open(&wrap_key, [0; 12], &body)?;
    let mac_key = hmac::Key::new(hmac::HMAC_SHA256, &derive(&file_key, b"", "header"));
    let mac = STANDARD_NO_PAD.decode(mac).ok()?;
    hmac::verify(&mac_key, &header, &mac).ok()?;

    let (salt, chunks) = payload.split_at_checked(16)?;
    let key = derive(&file_key, salt, "payload");
    let chunks: Vec<_> = chunks.chunks(65_536 + 16).collect();
    let mut plaintext = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let is_last = chunks.len().checked_sub(1) == Some(number);
        let mut nonce = [0; 12];
        nonce[10] = u8::try_from(number).unwrap();
        nonce[11] = is_last.into();
        let opened = open(&key, nonce, chunk)?;
        assert!(!opened.is_empty() || number == 0, "only the first chunk may be empty");
        plaintext.extend(opened);
    }
    (!chunks.is_empty()).then_some(plaintext)
}

fn plaintext(length: usize) -> Vec<u8> {
    (0_u8..251).cycle().take(length).collect()
}

#[test]
fn recorded_recipients_have_the_public_keys_of_their_identities() {
    // The second pair is the example of the specification.
    let specified_identity =
        "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
    let specified = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";
    for (recipient, identity) in [(RECIPIENT, IDENTITY), (specified, specified_identity)] {
        let parsed = AgeRecipient::parse(recipient).unwrap();
        let public_key = parse_identity(identity).compute_public_key().unwrap();
        assert_eq!(parsed.public_key, public_key.as_ref());
        assert_eq!(encode_recipient(&parsed.public_key), recipient);
        assert_eq!(AgeRecipient::parse(&format!(" {recipient}\n")), Ok(parsed));
    }
}

#[test]
fn other_keys_and_forms_are_rejected() {
    let cases = [
        (IDENTITY, AgeRecipientError::PrivateKey),
        ("age-secret-key-1", AgeRecipientError::PrivateKey),
        ("AGE-SECRET-KEY-PQ-1XX76", AgeRecipientError::PrivateKey),
        ("", AgeRecipientError::Form),
        ("age1", AgeRecipientError::Form),
        ("age", AgeRecipientError::Form),
        (&RECIPIENT[..61], AgeRecipientError::Form),
        (&RECIPIENT[1..], AgeRecipientError::Form),
        (&format!("{RECIPIENT}q"), AgeRecipientError::Form),
        (&RECIPIENT.to_uppercase(), AgeRecipientError::Form),
        (&RECIPIENT.replace("age1", "ags1"), AgeRecipientError::Form),
        (&RECIPIENT.replace("age1h", "ageé"), AgeRecipientError::Form),
        (
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICYvKXGcG4a19tTT0Rycbn+D0r/Y",
            AgeRecipientError::Form,
        ),
        (
            "age1tag1qt8lw0ual6avlwmwatk888yqnmdamm7xfd0wak53ut6elz5c4swx2yqdj4e",
            AgeRecipientError::Form,
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(AgeRecipient::parse(text), Err(expected), "{text}");
    }
}

#[test]
fn every_wrong_character_of_a_recipient_is_detected() {
    for at in 0..RECIPIENT.len() {
        for replacement in (' '..='~').filter(|it| !RECIPIENT[at..].starts_with(*it)) {
            let text = format!("{}{replacement}{}", &RECIPIENT[..at], &RECIPIENT[at + 1..]);
            assert!(AgeRecipient::parse(&text).is_err(), "{text}");
        }
    }
}

#[test]
fn unused_bits_and_other_prefixes_are_rejected_despite_their_checksum() {
    let key = AgeRecipient::parse(RECIPIENT).unwrap().public_key;
    assert_eq!(encode_bech32("age", &to_groups(&key, 0)), RECIPIENT);
    for unused_bits in 1..16 {
        let text = encode_bech32("age", &to_groups(&key, unused_bits));
        assert_eq!(AgeRecipient::parse(&text), Err(AgeRecipientError::Form));
    }
    // The same length, because the separator is the last 1.
    let text = encode_bech32("age1x", &to_groups(&key, 0)[2..]);
    assert_eq!((text.len(), AgeRecipient::parse(&text)), (62, Err(AgeRecipientError::Form)));
    let text = encode_bech32("agf", &to_groups(&key, 0)).replacen("agf", "age", 1);
    assert_eq!(AgeRecipient::parse(&text), Err(AgeRecipientError::Checksum));
}

/// With such a key the shared secret is zero for every sender, so everybody can decrypt.
#[test]
fn recipients_of_low_order_are_rejected() {
    let near_modulus = |first: u8| {
        let middle = iter::repeat_n(0xff, 30);
        iter::once(first).chain(middle).chain(iter::once(0x7f)).collect::<Vec<u8>>()
    };
    let small = |first: u8| iter::once(first).chain(iter::repeat_n(0, 31)).collect::<Vec<u8>>();
    let mut points =
        vec![small(0), small(1), near_modulus(0xec), near_modulus(0xed), near_modulus(0xee)];
    points.push(parse_hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"));
    points.push(parse_hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"));
    for mut point in points {
        // The highest bit of a point is ignored.
        for _ in 0..2 {
            let text = encode_recipient(&point);
            assert_eq!(
                AgeRecipient::parse(&text),
                Err(AgeRecipientError::LowOrder),
                "{point:02x?}"
            );
            *point.last_mut().unwrap() ^= 0x80;
        }
    }
    assert!(AgeRecipient::parse(&encode_recipient(&small(9))).is_ok(), "the base point");
}

fn parse_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().map(|it| it.to_digit(16).unwrap().try_into().unwrap()).collect();
    digits.chunks(2).map(|it| it[0] << 4 | it[1]).collect()
}

#[test]
fn recorded_file_is_decrypted_by_the_reader_of_the_tests() {
    let identity = parse_identity(IDENTITY);
    assert_eq!(decrypt(&identity, RECORDED_FILE).unwrap(), RECORDED_PLAINTEXT);
}

#[test]
fn files_of_any_length_are_decrypted_by_the_reader_of_the_tests() {
    let recipient = AgeRecipient::parse(RECIPIENT).unwrap();
    let identity = parse_identity(IDENTITY);
    for length in LENGTHS {
        let text = recipient.encrypt(&Secret::new(plaintext(length)));
        assert_eq!(decrypt(&identity, &text), Some(plaintext(length)), "{length} bytes");
    }
}

#[test]
fn file_is_not_decrypted_by_another_key_and_has_new_random_values() {
    let recipient = AgeRecipient::parse(RECIPIENT).unwrap();
    let encrypt = || recipient.encrypt(&Secret::new(b"share".to_vec()));
    let other_identity = PrivateKey::from_private_key(&X25519, &[7; 32]).unwrap();
    assert_eq!(decrypt(&other_identity, &encrypt()), None);
    let (first, second) = (remove_armor(&encrypt()).unwrap(), remove_armor(&encrypt()).unwrap());
    // The ephemeral share, the wrapped file key, the MAC, the salt and the payload all differ.
    for (start, end) in [(32, 75), (76, 119), (124, 167), (168, 184), (184, 205)] {
        assert_ne!(first[start..end], second[start..end], "{start}");
        assert_eq!((first.len(), second.len()), (205, 205));
    }
}

/// The program is the peer that holders use.
#[test]
fn program_age_decrypts_files_of_any_length() {
    let folder = tempfile::tempdir().unwrap();
    let (identity, encrypted) = (folder.path().join("identity"), folder.path().join("share.age"));
    fs::write(&identity, IDENTITY).unwrap();
    let recipient = AgeRecipient::parse(RECIPIENT).unwrap();
    for length in LENGTHS {
        fs::write(&encrypted, recipient.encrypt(&Secret::new(plaintext(length)))).unwrap();
        let output = Command::new("age")
            .arg("--decrypt")
            .arg("--identity")
            .arg(&identity)
            .arg(&encrypted)
            .output()
            .expect("the program age is installed");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{length} bytes: {message}");
        assert!(output.stdout == plaintext(length), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn any_text_is_parsed_without_a_panic(text in any::<String>()) {
        prop_assert!(AgeRecipient::parse(&text).is_err());
    }

    #[test]
    fn any_text_of_similar_form_is_rejected(text in "(?i:age1)[02-9ac-hj-np-z]{58}") {
        prop_assert!(AgeRecipient::parse(&text).is_err());
    }

    #[test]
    fn any_key_is_parsed_and_its_owner_decrypts(
        private_key in any::<[u8; 32]>(),
        plaintext in vec(any::<u8>(), 0..300),
    ) {
        let identity = PrivateKey::from_private_key(&X25519, &private_key).unwrap();
        let public_key = identity.compute_public_key().unwrap();
        let recipient = AgeRecipient::parse(&encode_recipient(public_key.as_ref())).unwrap();
        let text = recipient.encrypt(&Secret::new(plaintext.clone()));
        prop_assert_eq!(decrypt(&identity, &text), Some(plaintext));
    }
}
