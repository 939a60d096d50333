//! The challenge of an app. The tests act as the SDK.

use aws_lc_rs::{
    aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree},
    cipher::{
        AES_128, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
        PaddedBlockEncryptingKey, UnboundCipherKey,
    },
    digest, hmac,
    iv::FixedLength,
    signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as Verifying},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use scrip_threeds::encoding::{decode, encode};
use serde_json::{Value, json};

use crate::harness::{SimulatorHarness, merge, new_id};

const CARD: &str = "4200000000000004";
const SDK_REFERENCE_NUMBER: &str = "3DS_LOA_SDK_TEST_020200_00001";

/// The SDK side of one transaction.
struct Sdk<'a> {
    harness: &'a SimulatorHarness,
    private_key: PrivateKey,
    trans_id: String,
    enc: &'static str,
    counter: u16,
}

fn jwk(point: &[u8]) -> Value {
    json!({ "kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..]) })
}

impl<'a> Sdk<'a> {
    fn new(harness: &'a SimulatorHarness, enc: &'static str) -> Self {
        let private_key = PrivateKey::generate(&ECDH_P256).unwrap();
        Self { harness, private_key, trans_id: new_id(), enc, counter: 0 }
    }

    fn areq(&self, number: &str) -> Value {
        let public_key = self.private_key.compute_public_key().unwrap();
        merge(
            self.harness.bare_areq("01", number),
            &json!({
                "threeDSRequestorAuthenticationInd": "01", "sdkAppID": new_id(),
                "sdkEncData": "e30..a.a.a", "sdkEphemPubKey": jwk(public_key.as_ref()),
                "sdkMaxTimeout": "05", "sdkReferenceNumber": SDK_REFERENCE_NUMBER, "sdkTransID": self.trans_id,
                "deviceRenderOptions": { "sdkInterface": "03", "sdkUiType": ["01", "04"] },
            }),
        )
    }

    /// The shared key, derived from the signed content of the ACS.
    fn derive_key(&self, ares: &Value) -> Vec<u8> {
        let signed = ares["acsSignedContent"].as_str().unwrap();
        let payload = decode(signed.split('.').nth(1).unwrap()).unwrap();
        let payload: Value = serde_json::from_slice(&payload).unwrap();
        let coordinate =
            |name: &str| decode(payload["acsEphemPubKey"][name].as_str().unwrap()).unwrap();
        let point = [&[4], coordinate("x").as_slice(), coordinate("y").as_slice()].concat();
        let acs_public_key = UnparsedPublicKey::new(&ECDH_P256, point);
        let secret =
            agree(&self.private_key, acs_public_key, (), |secret| Ok::<_, ()>(secret.to_vec()))
                .unwrap();
        let length = u32::try_from(SDK_REFERENCE_NUMBER.len()).unwrap().to_be_bytes();
        let input = [
            &[0, 0, 0, 1],
            secret.as_slice(),
            &[0; 8],
            &length,
            SDK_REFERENCE_NUMBER.as_bytes(),
            &[0, 0, 1, 0],
        ];
        digest::digest(&digest::SHA256, &input.concat()).as_ref().to_vec()
    }

    fn creq(&mut self, ares: &Value, changes: &Value) -> Value {
        let counter = format!("{:03}", self.counter);
        self.counter += 1;
        let message = json!({
            "messageType": "CReq", "messageVersion": "2.2.0", "sdkTransID": self.trans_id,
            "threeDSServerTransID": ares["threeDSServerTransID"],
            "acsTransID": ares["acsTransID"], "sdkCounterStoA": counter,
        });
        merge(message, changes)
    }

    fn send(&mut self, ares: &Value, changes: &Value) -> Value {
        let message = self.creq(ares, changes);
        let cres = self.exchange(ares, &message);
        assert_eq!(cres["acsCounterAtoS"], message["sdkCounterStoA"]);
        assert_eq!(cres["sdkTransID"], self.trans_id);
        cres
    }

    fn exchange(&self, ares: &Value, message: &Value) -> Value {
        let key = self.derive_key(ares);
        let sealed = seal(self.enc, &key, ares["acsTransID"].as_str().unwrap(), message);
        let sealed_cres = self.post(&sealed);
        open(self.enc, &key, &sealed_cres)
    }

    fn post(&self, sealed: &str) -> String {
        self.harness.post("/sim/acs/app", "application/jose; charset=utf-8", sealed.as_bytes()).text
    }
}

fn seal(enc: &str, key: &[u8], kid: &str, message: &Value) -> String {
    let header = encode(json!({ "alg": "dir", "enc": enc, "kid": kid }).to_string().as_bytes());
    let mut text = message.to_string().into_bytes();
    if enc == "A128GCM" {
        let nonce = Nonce::assume_unique_for_key([7; 12]);
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).unwrap());
        let aad = Aad::from(header.as_bytes());
        let tag = key.seal_in_place_separate_tag(nonce, aad, &mut text).unwrap();
        return format!(
            "{header}..{}.{}.{}",
            encode(&[7; 12]),
            encode(&text),
            encode(tag.as_ref())
        );
    }
    let cipher = UnboundCipherKey::new(&AES_128, &key[16..]).unwrap();
    let context = EncryptionContext::Iv128(FixedLength::from([7; 16]));
    PaddedBlockEncryptingKey::cbc_pkcs7(cipher)
        .unwrap()
        .less_safe_encrypt(&mut text, context)
        .unwrap();
    let tag = mac(&key[..16], &header, &[7; 16], &text);
    format!("{header}..{}.{}.{}", encode(&[7; 16]), encode(&text), encode(&tag))
}

fn mac(key: &[u8], header: &str, iv: &[u8], text: &[u8]) -> Vec<u8> {
    let bits = (u64::try_from(header.len()).unwrap() * 8).to_be_bytes();
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, &[header.as_bytes(), iv, text, &bits].concat()).as_ref()[..16].to_vec()
}

fn open(enc: &str, key: &[u8], compact: &str) -> Value {
    let parts: Vec<_> = compact.split('.').collect();
    assert_eq!((parts.len(), parts[1]), (5, ""), "{compact}");
    let [iv, mut text, tag] = [2, 3, 4].map(|index| decode(parts[index]).unwrap().to_vec());
    let opened = if enc == "A128GCM" {
        let nonce = Nonce::try_assume_unique_for_key(&iv).unwrap();
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[16..]).unwrap());
        text.extend(tag);
        key.open_in_place(nonce, Aad::from(parts[0].as_bytes()), &mut text).unwrap().to_vec()
    } else {
        assert_eq!(mac(&key[..16], parts[0], &iv, &text), tag);
        let cipher = UnboundCipherKey::new(&AES_128, &key[16..]).unwrap();
        let iv: [u8; 16] = iv.try_into().unwrap();
        let context = DecryptionContext::Iv128(FixedLength::from(iv));
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(cipher).unwrap();
        key.decrypt(&mut text, context).unwrap().to_vec()
    };
    serde_json::from_slice(&opened).unwrap()
}

#[test]
fn app_challenge_succeeds_with_both_encryptions() {
    let harness = SimulatorHarness::start();
    for enc in ["A128CBC-HS256", "A128GCM"] {
        let mut sdk = Sdk::new(&harness, enc);
        let ares = harness.send_message("visa", &sdk.areq(CARD));
        assert_eq!(
            (&ares["transStatus"], &ares["sdkTransID"]),
            (&json!("C"), &json!(sdk.trans_id))
        );
        assert_eq!(
            ares["acsRenderingType"],
            json!({ "acsInterface": "01", "acsUiTemplate": "01" })
        );
        let prompt = sdk.send(&ares, &json!({}));
        assert_eq!(
            (&prompt["challengeCompletionInd"], &prompt["acsUiType"]),
            (&json!("N"), &json!("01"))
        );
        let retry = sdk.send(&ares, &json!({ "challengeDataEntry": "4321" }));
        assert_eq!(retry["challengeInfoTextIndicator"], "Y");
        let resent = sdk.send(&ares, &json!({ "resendChallenge": "Y" }));
        assert_eq!(resent["challengeCompletionInd"], "N");
        let last = sdk.send(&ares, &json!({ "challengeDataEntry": "1234" }));
        assert_eq!(
            (&last["challengeCompletionInd"], &last["transStatus"]),
            (&json!("Y"), &json!("Y"))
        );
        let result = harness.next_result();
        assert_eq!(
            (&result["transStatus"], &result["interactionCounter"]),
            (&json!("Y"), &json!("02"))
        );
        assert_eq!(result["sdkTransID"], sdk.trans_id);
        assert_eq!(result["acsRenderingType"]["acsUiTemplate"], "01");
    }
}

#[test]
fn app_challenge_ends_by_out_of_band_cancel_or_wrong_codes() {
    let harness = SimulatorHarness::start();
    let mut sdk = Sdk::new(&harness, "A128GCM");
    let ares = harness.send_message("visa", &sdk.areq("4200000000000016"));
    assert_eq!(ares["acsRenderingType"]["acsUiTemplate"], "04");
    assert_eq!(sdk.send(&ares, &json!({}))["acsUiType"], "04");
    assert_eq!(sdk.send(&ares, &json!({ "oobContinue": true }))["transStatus"], "Y");
    assert_eq!(harness.next_result()["authenticationType"], "03");

    let mut sdk = Sdk::new(&harness, "A128CBC-HS256");
    let ares = harness.send_message("visa", &sdk.areq(CARD));
    sdk.send(&ares, &json!({}));
    assert_eq!(sdk.send(&ares, &json!({ "challengeCancel": "01" }))["transStatus"], "N");
    assert_eq!(harness.next_result()["challengeCancel"], "01");

    let mut sdk = Sdk::new(&harness, "A128CBC-HS256");
    let ares = harness.send_message("visa", &sdk.areq(CARD));
    for _ in 0..3 {
        let cres = sdk.send(&ares, &json!({ "challengeDataEntry": "9" }));
        assert_eq!(cres["challengeCompletionInd"], "N", "the first CReq only starts the challenge");
    }
    assert_eq!(sdk.send(&ares, &json!({ "challengeDataEntry": "9" }))["transStatus"], "N");
    assert_eq!(harness.next_result()["transStatusReason"], "19");
}

#[test]
fn invalid_app_messages_return_emv_error_codes() {
    let harness = SimulatorHarness::start();
    let mut sdk = Sdk::new(&harness, "A128GCM");
    let ares = harness.send_message("visa", &sdk.areq(CARD));
    let (key, id) = (sdk.derive_key(&ares), ares["acsTransID"].as_str().unwrap().to_owned());
    let message = sdk.creq(&ares, &json!({}));
    let sealed = seal("A128GCM", &key, &id, &message);
    let error_code = |text: &str| {
        let erro: Value = serde_json::from_str(&sdk.post(text)).unwrap();
        assert_eq!((&erro["messageType"], &erro["errorComponent"]), (&json!("Erro"), &json!("A")));
        erro["errorCode"].as_str().unwrap().to_owned()
    };
    let mut altered = sealed.clone();
    let last = if altered.pop() == Some('A') { 'Q' } else { 'A' };
    altered.push(last);
    assert_eq!(error_code(&altered), "302");
    let plain = seal("A128CBC-HS256", &key, &id, &message);
    let (rest, _) = plain.rsplit_once('.').unwrap();
    assert_eq!(error_code(&format!("{rest}.{}", encode(&[0; 16]))), "302");
    assert_eq!(error_code("a.b.c"), "101");
    assert_eq!(error_code(&sealed.replace("..", ".YQ.")), "101");
    assert_eq!(error_code(&seal("A128GCM", &key, &new_id(), &message)), "301");
    let other = merge(message.clone(), &json!({ "sdkTransID": new_id() }));
    assert_eq!(error_code(&seal("A128GCM", &key, &id, &other)), "301");
    let skipped = merge(message.clone(), &json!({ "sdkCounterStoA": "001" }));
    assert_eq!(error_code(&seal("A128GCM", &key, &id, &skipped)), "302");
    let sized = merge(message, &json!({ "challengeWindowSize": "03" }));
    assert_eq!(error_code(&seal("A128GCM", &key, &id, &sized)), "203");
    // A repeated message is rejected.
    assert_eq!(open("A128GCM", &key, &sdk.post(&sealed))["challengeCompletionInd"], "N");
    assert_eq!(error_code(&sealed), "302");
    // A point that is not on the curve is rejected.
    let off = json!({ "kty": "EC", "crv": "P-256", "x": "A".repeat(43), "y": "A".repeat(43) });
    let erro =
        harness.send_message("visa", &merge(sdk.areq(CARD), &json!({ "sdkEphemPubKey": off })));
    assert_eq!(
        (&erro["errorCode"], &erro["errorDetail"]),
        (&json!("203"), &json!("sdkEphemPubKey"))
    );
    assert_eq!(erro["errorComponent"], "A");
}

#[test]
fn acs_signed_content_verifies_against_the_root() {
    let harness = SimulatorHarness::start();
    let sdk = Sdk::new(&harness, "A128GCM");
    let request = sdk.areq(CARD);
    let ares = harness.send_message("visa", &request);
    let signed = ares["acsSignedContent"].as_str().unwrap();
    let (text, signature) = signed.rsplit_once('.').unwrap();
    let (header, payload) = text.split_once('.').unwrap();
    let header: Value = serde_json::from_slice(&decode(header).unwrap()).unwrap();
    let payload: Value = serde_json::from_slice(&decode(payload).unwrap()).unwrap();
    assert_eq!(header["alg"], "ES256");
    assert_eq!(payload["acsURL"], format!("{}/sim/acs/app", harness.simulator.base_url()));
    assert_eq!(payload["sdkEphemPubKey"], request["sdkEphemPubKey"]);
    let [leaf, root] =
        [0, 1].map(|index| STANDARD.decode(header["x5c"][index].as_str().unwrap()).unwrap());
    // The public key in an EC certificate: a bit string of 66 bytes, beginning with an uncompressed
    // point.
    let index = leaf.windows(4).position(|it| it == [0x03, 0x42, 0x00, 0x04]).unwrap() + 3;
    let key = Verifying::new(&ECDSA_P256_SHA256_FIXED, &leaf[index..index + 65]);
    key.verify(text.as_bytes(), &decode(signature).unwrap()).unwrap();
    assert_issued_by(leaf, root);
}

/// The root issued the signer's certificate.
fn assert_issued_by(leaf: Vec<u8>, root: Vec<u8>) {
    use rustls::{
        RootCertStore,
        pki_types::{CertificateDer, UnixTime},
        server::WebPkiClientVerifier,
    };
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(root)).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_794_700_800));
    let verifier = verifier.build().unwrap();
    verifier.verify_client_cert(&CertificateDer::from(leaf), &[], now).unwrap();
}
