//! Edits of a message by transforms: masks and appended values.

pub(in crate::proxy) mod append;
pub(in crate::proxy) mod error;
pub(in crate::proxy) mod mask;
pub(in crate::proxy) mod match_finder;

pub(in crate::proxy) use self::error::TransformError;
pub use self::{error::TransformKind, mask::MaskEdit};
use bytes::Bytes;
use hyper::{HeaderMap, header::CONTENT_ENCODING};

/// A response between two transforms.
#[derive(Debug, Clone)]
pub struct TransformMessage {
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// Headers that describe the bytes of a body. They are wrong after a change.
const BODY_DIGESTS: [&str; 4] = ["content-digest", "content-md5", "digest", "repr-digest"];

impl TransformMessage {
    pub(in crate::proxy) fn change_body(&mut self, body: Bytes) {
        if body != self.body {
            for name in BODY_DIGESTS {
                self.headers.remove(name);
            }
        }
        self.body = body;
    }

    pub(in crate::proxy) fn is_encoded(&self) -> bool {
        let mut encodings = self.headers.get_all(CONTENT_ENCODING).iter();
        encodings.any(|it| !it.as_bytes().eq_ignore_ascii_case(b"identity"))
    }
}
