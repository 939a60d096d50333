//! Signs the ACS content for an SDK with a certificate chain from the simulator's own root.

use std::fmt;

use aws_lc_rs::{
    agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use scrip_threeds::{
    encoding::{decode, encode},
    fault::{ErrorCode, Fault},
    format::JoseCompact,
    message::EphemeralKey,
};
use serde_json::{Value, json};

use crate::{app_encryption::AppKeys, settings::StartError};

/// Created at the first use after each start, so that no client can depend on its keys.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    /// The signer's certificate and its root, in base64.
    chain: [String; 2],
    root_pem: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

impl Signer {
    pub(crate) fn new() -> Result<Self, StartError> {
        let certificate_error = |_| StartError::Keys("certificates");
        let root_key = KeyPair::generate().map_err(certificate_error)?;
        let mut root = certificate_params("Scrip simulator root").map_err(certificate_error)?;
        root.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let root_certificate = root.self_signed(&root_key).map_err(certificate_error)?;
        let key = KeyPair::generate().map_err(certificate_error)?;
        let leaf = certificate_params("Scrip simulator ACS").map_err(certificate_error)?;
        let leaf = leaf.signed_by(&key, &Issuer::new(root, root_key)).map_err(certificate_error)?;
        let pkcs8 = key.serialize_der();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8);
        Ok(Self {
            key: key.map_err(|_| StartError::Keys("signing key"))?,
            chain: [STANDARD.encode(leaf.der()), STANDARD.encode(root_certificate.der())],
            root_pem: root_certificate.pem(),
        })
    }

    /// The root certificate that an SDK must trust.
    pub(crate) fn root_pem(&self) -> &str {
        &self.root_pem
    }

    /// Creates an ephemeral key for this transaction, derives the message keys with the SDK's key,
    /// and signs the ACS content.
    pub(super) fn create_app_keys(
        &self,
        acs_url: &str,
        sdk_key: &EphemeralKey,
        sdk_reference_number: &str,
    ) -> Result<(JoseCompact<3, 65_536>, AppKeys), Fault> {
        let invalid = || Fault::for_element(ErrorCode::FormatInvalid, "sdkEphemPubKey");
        let internal = || Fault::new(ErrorCode::TransientFailure);
        let (x, y) = (decode(sdk_key.x.expose())?, decode(sdk_key.y.expose())?);
        let point: Vec<u8> = [4].iter().chain(x.iter()).chain(y.iter()).copied().collect();
        let acs_private_key = PrivateKey::generate(&ECDH_P256).map_err(|_| internal())?;
        let acs_public_key = acs_private_key.compute_public_key().map_err(|_| internal())?;
        let sdk_public_key = UnparsedPublicKey::new(&ECDH_P256, &point);
        let keys = agree(&acs_private_key, sdk_public_key, invalid(), |secret| {
            Ok(AppKeys::derive(secret, sdk_reference_number))
        })?;
        let (acs_x, acs_y) = acs_public_key
            .as_ref()
            .get(1..)
            .and_then(|it| it.split_at_checked(32))
            .ok_or_else(internal)?;
        let payload = json!({
            "acsURL": acs_url,
            "acsEphemPubKey": jwk(&encode(acs_x), &encode(acs_y)),
            "sdkEphemPubKey": jwk(sdk_key.x.expose(), sdk_key.y.expose()),
        });
        let signed = self.sign(&payload).ok_or_else(internal)?;
        Ok((JoseCompact::parse(&signed).map_err(|_| internal())?, keys))
    }

    fn sign(&self, payload: &Value) -> Option<String> {
        let header = json!({ "alg": "ES256", "x5c": self.chain });
        let text = format!(
            "{}.{}",
            encode(header.to_string().as_bytes()),
            encode(payload.to_string().as_bytes())
        );
        let signature = self.key.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
        Some(format!("{text}.{}", encode(signature.as_ref())))
    }
}

fn jwk(x: &str, y: &str) -> Value {
    json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
}

fn certificate_params(name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
