//! The key of a proxy: every holder may call a proxy with `require_auth: false`.

use std::fmt;

use zeroize::Zeroizing;

/// The text of a proxy key. `Debug` does not print it, and it is wiped when dropped.
#[derive(Clone)]
pub struct ProxyKeyText(Zeroizing<String>);

/// 128 random bits.
const KEY_BYTES: usize = 16;

impl ProxyKeyText {
    pub fn new(fill_random: fn(&mut [u8])) -> Self {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        fill_random(bytes.as_mut());
        Self(Zeroizing::new(bs58::encode(bytes.as_ref()).into_string()))
    }

    pub(crate) fn from_stored(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProxyKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxyKeyText")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_keys_are_random_and_not_printed() {
        let create = || ProxyKeyText::new(scrip_seal::fill_random);
        let key = create();
        assert_ne!(key.expose(), create().expose());
        assert!((20..=22).contains(&key.expose().len()), "{} characters", key.expose().len());
        assert!(key.expose().bytes().all(|it| it.is_ascii_alphanumeric()));
        assert_eq!(format!("{key:?}"), "ProxyKeyText");
    }
}
