//! A fake of AWS KMS, for answers that `moto` does not give.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::process::unlock_sources::fake_peer::{PeerRequest, Reply};

/// Encrypts by reversing the bytes, with this key ARN in every answer.
pub fn play_kms(request: &PeerRequest, key_arn: &str) -> Reply {
    let body = request.json();
    let reverse = |name: &str| {
        let mut bytes = STANDARD.decode(body.get(name).unwrap().as_str().unwrap()).unwrap();
        bytes.reverse();
        STANDARD.encode(bytes)
    };
    let answer = match request.header("x-amz-target") {
        "TrentService.Encrypt" => {
            json!({"KeyId": key_arn, "CiphertextBlob": reverse("Plaintext")})
        }
        _ => json!({"KeyId": key_arn, "Plaintext": reverse("CiphertextBlob")}),
    };
    (200, answer.to_string())
}

/// The answer to a failed request.
pub fn failure(name: &str) -> Reply {
    (400, json!({"__type": name, "message": "text of the service"}).to_string())
}
