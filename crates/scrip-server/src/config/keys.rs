//! Values of the settings of unlock methods.

use std::time::Duration;

use scrip_core::unlock::UnlockKind;
use scrip_types::duration::parse_seconds;

use crate::config::value::SettingValue;

/// The order in which the kinds of unlock methods are tried. Kinds that are not in the list come
/// after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnlockOrder(Vec<UnlockKind>);

impl UnlockOrder {
    /// The position of a kind: kinds with a lower one are tried earlier.
    pub(crate) fn position(&self, kind: UnlockKind) -> usize {
        let kinds = self.0.iter().copied();
        let others = UnlockKind::ALL.into_iter().filter(|it| !self.0.contains(it));
        kinds.chain(others).position(|it| it == kind).unwrap_or(usize::MAX)
    }
}

impl SettingValue for UnlockOrder {
    fn parse(text: &str) -> Result<Self, String> {
        let names = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let kinds: Option<Vec<_>> = names.map(UnlockKind::parse).collect();
        kinds.map(Self).ok_or_else(|| {
            "must be kinds of unlock methods separated by commas, such as pkcs11, file".to_owned()
        })
    }
}

/// Libraries, addresses, files and keys of services that unlock methods may use.
///
/// The parameters of a method are in the database, and only an open vault can verify their MAC.
/// Without this list, a writer of the database could make a start load any library, or send a token
/// to any address.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedSources(Vec<String>);

impl AllowedSources {
    pub(crate) fn contains(&self, source: &str) -> bool {
        self.0.iter().any(|it| it == source.trim_end_matches('/'))
    }
}

impl SettingValue for AllowedSources {
    fn parse(text: &str) -> Result<Self, String> {
        let sources = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let sources: Vec<_> = sources.map(|it| it.trim_end_matches('/').to_owned()).collect();
        let is_key = |it: &str| {
            it.starts_with("arn:")
                || it.len() >= 32 && it.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        if sources.iter().all(|it| it.starts_with('/') || it.contains("://") || is_key(it)) {
            return Ok(Self(sources));
        }
        Err("must be absolute paths, URLs, or keys of AWS KMS (ids or ARNs), separated by commas"
            .to_owned())
    }
}

/// How long an open vault is served while no unlock method returns its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLossLimit(pub Duration);

impl SettingValue for SourceLossLimit {
    fn parse(text: &str) -> Result<Self, String> {
        parse_time(text).map(Self)
    }
}

/// How often each unlock method is asked for the vault key while all of them work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckInterval(pub Duration);

impl SettingValue for CheckInterval {
    fn parse(text: &str) -> Result<Self, String> {
        parse_time(text).map(Self)
    }
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let rule = || "must be a time such as 30m, 24h or 7d".to_owned();
    let seconds = parse_seconds(text).filter(|it| (1..=u64::from(u32::MAX)).contains(it));
    seconds.map(Duration::from_secs).ok_or_else(rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load::tests::{assert_rejected, load};

    #[test]
    fn unlock_order_puts_its_kinds_first() {
        let settings = load("[keys]\nunlock_order = \"transit, env\"", &[]).unwrap();
        let mut kinds = UnlockKind::ALL;
        kinds.sort_by_key(|it| settings.keys.unlock_order.position(*it));
        assert_eq!(kinds.map(UnlockKind::as_str)[..3], ["transit", "env", "file"]);
        assert_rejected("[keys]\nunlock_order = \"usb\"", "keys.unlock_order: must be kinds");
    }

    #[test]
    fn allowed_sources_are_paths_and_urls_without_a_slash_at_the_end() {
        let setting = "[keys]\nunlock_sources = \"/lib/hsm.so, https://bao.example/\"";
        let sources = load(setting, &[]).unwrap().keys.unlock_sources;
        for source in ["/lib/hsm.so", "https://bao.example", "https://bao.example/"] {
            assert!(sources.contains(source), "{source}");
        }
        assert!(!sources.contains("/lib/other.so") && !sources.contains("https://bao.example.org"));
        assert_rejected("[keys]\nunlock_sources = \"hsm.so\"", "keys.unlock_sources: must be");
    }

    #[test]
    fn program_without_fips_module_rejects_require_fips() {
        assert_rejected("[keys]\nrequire_fips = true", "keys.require_fips: this program has no");
        assert!(!load("", &[]).unwrap().keys.require_fips);
    }

    #[test]
    fn source_loss_limit_is_a_number_with_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800)] {
            let settings = load(&format!("[keys]\nseal_when_source_lost = \"{text}\""), &[]);
            let limit = settings.unwrap().keys.seal_when_source_lost.unwrap();
            assert_eq!(limit.0.as_secs(), seconds, "{text}");
        }
        for text in ["0h", "24", "h", "-1h", "1w", "1.5h"] {
            let setting = format!("[keys]\nseal_when_source_lost = \"{text}\"");
            assert_rejected(&setting, "keys.seal_when_source_lost: must be a time");
        }
        assert!(load("", &[]).unwrap().keys.seal_when_source_lost.is_none());
    }
}
