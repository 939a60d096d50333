//! Client encryption: a client encrypts data for a key pair of a tenant, as a JWE in compact form
//! (RFC 7516) with `ECDH-ES` over X25519 (RFC 8037) and `A256GCM`.

mod jwe;
mod key_pair;

pub use self::{
    jwe::{Jwe, JweError},
    key_pair::{ClientKeyError, ClientKeyPair},
};
