//! Encrypts data as a client does, independently of `scrip-seal`.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral},
    digest::{Context, SHA256},
    rand::{SystemRandom, fill},
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

/// Encrypts JSON for the key of a response of `POST /keys`.
pub fn encrypt_json(client_key: &Value, plaintext: &Value) -> String {
    let text = |name: &str| client_key[name].as_str().unwrap();
    encrypt(text("public_key_pem"), text("key_id"), plaintext.to_string().as_bytes())
}

/// Encrypts bytes as a JWE in compact form.
pub fn encrypt(public_key_pem: &str, key_id: &str, plaintext: &[u8]) -> String {
    let public_key = STANDARD.decode(public_key_pem.lines().nth(1).unwrap()).unwrap();
    let ephemeral = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).unwrap();
    let ephemeral_key = ephemeral.compute_public_key().unwrap();
    let header = json!({
        "alg": "ECDH-ES",
        "enc": "A256GCM",
        "kid": key_id,
        "epk": {
            "kty": "OKP", "crv": "X25519", "x": URL_SAFE_NO_PAD.encode(ephemeral_key.as_ref()),
        },
    });
    let header = URL_SAFE_NO_PAD.encode(header.to_string());
    let peer = UnparsedPublicKey::new(&X25519, public_key);
    let key = agree_ephemeral(ephemeral, peer, (), |shared_secret| {
        let mut context = Context::new(&SHA256);
        for part in [
            1_u32.to_be_bytes().as_slice(),
            shared_secret,
            7_u32.to_be_bytes().as_slice(),
            b"A256GCM",
            0_u32.to_be_bytes().as_slice(),
            0_u32.to_be_bytes().as_slice(),
            256_u32.to_be_bytes().as_slice(),
        ] {
            context.update(part);
        }
        Ok(context.finish())
    });
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.unwrap().as_ref()).unwrap());
    let mut nonce = [0; 12];
    fill(&mut nonce).unwrap();
    let mut bytes = plaintext.to_vec();
    let aad = Aad::from(header.as_bytes());
    let tag = key
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes)
        .unwrap();
    let [nonce, bytes, tag] =
        [nonce.as_slice(), &bytes, tag.as_ref()].map(|it| URL_SAFE_NO_PAD.encode(it));
    format!("{header}..{nonce}.{bytes}.{tag}")
}
