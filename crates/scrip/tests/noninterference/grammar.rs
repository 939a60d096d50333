//! A grammar of expressions: masks, ids, fingerprints and search indexes, among them those that compute with hidden digits.

use scrip_testing::random::SeededRandom;
use serde_json::{Value, json};

/// The token types that the sequences use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Card,
    CardNumber,
    NetworkToken,
    Bank,
    Account,
    Identity,
    /// An object of type `token`.
    Object,
}

impl TokenKind {
    pub(crate) const WEIGHTS: [(usize, Self); 7] = [
        (8, Self::Card),
        (2, Self::CardNumber),
        (1, Self::NetworkToken),
        (4, Self::Bank),
        (1, Self::Account),
        (2, Self::Identity),
        (6, Self::Object),
    ];

    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::CardNumber => "card_number",
            Self::NetworkToken => "network_token",
            Self::Bank => "bank",
            Self::Account => "us_bank_account_number",
            Self::Identity => "social_security_number",
            Self::Object => "token",
        }
    }

    /// Where the hidden digits are.
    fn secret_path(self) -> &'static str {
        match self {
            Self::Card | Self::NetworkToken => "data.number",
            Self::CardNumber | Self::Account | Self::Identity => "data",
            Self::Bank => "data.account_number",
            Self::Object => "data.pin",
        }
    }

    /// Places of hidden digits.
    fn hidden_positions(self) -> &'static [usize] {
        match self {
            Self::Card | Self::NetworkToken | Self::CardNumber => &[8, 9, 10, 11],
            Self::Bank | Self::Account | Self::Identity | Self::Object => &[0, 1, 2, 3],
        }
    }

    pub(crate) fn default_fingerprint(self) -> &'static str {
        match self {
            Self::Card | Self::NetworkToken => "{{ data.number }}",
            Self::CardNumber | Self::Account => "{{ data }}",
            Self::Bank => "{{ data.account_number }}|{{ data.routing_number }}",
            Self::Identity => "{{ data | remove: '-' }}",
            Self::Object => "{{ data | stringify }}",
        }
    }

    fn has_expiry(self) -> bool {
        matches!(self, Self::Card | Self::NetworkToken)
    }
}

/// The first year of [`crate::generate`] reads as the first hidden position.
pub(crate) const YEARS: [i32; 4] = [2038, 2039, 2040, 2041];

/// Assigns one hidden digit to `d`.
fn assign_digit(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    if kind.has_expiry() && random.is_within_percent(40) {
        let place = "{% assign p = data.expiration_year | minus: 2030 %}";
        return format!("{place}{{% assign d = {secret} | slice: p %}}");
    }
    let position = random.pick(kind.hidden_positions());
    format!("{{% assign d = {secret} | slice: {position} %}}")
}

fn predicate(random: &mut SeededRandom, kind: TokenKind) -> (String, String) {
    let digit = random.below(10);
    match random.below(4) {
        0 => (assign_digit(random, kind), format!("d == '{digit}'")),
        1 => (String::new(), format!("{} contains '{digit}'", kind.secret_path())),
        2 => (
            String::new(),
            format!("{} contains '{digit}{}'", kind.secret_path(), random.below(10)),
        ),
        _ => {
            let assign = assign_digit(random, kind);
            (format!("{assign}{{% assign n = d | to_number %}}"), "n < 5".to_owned())
        }
    }
}

/// Depends on hidden digits: gives nothing, fails, or gives another text.
fn conditional(random: &mut SeededRandom, kind: TokenKind) -> String {
    let (assign, test) = predicate(random, kind);
    match random.below(6) {
        0 => format!("{assign}{{% if {test} %}}high{{% endif %}}"),
        1 => format!("{assign}{{% unless {test} %}}high{{% endunless %}}"),
        2..=4 => format!("{assign}{{% if {test} %}}high{{% else %}}low{{% endif %}}"),
        _ => format!(
            "{assign}{{% if {test} %}}{{{{ 1 | divided_by: 0 }}}}{{% else %}}low{{% endif %}}"
        ),
    }
}

/// Shows hidden digits or computes with them.
fn extraction(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    let position = random.pick(kind.hidden_positions());
    match random.below(6) {
        0 => format!("{{{{ {secret} | slice: {position} }}}}"),
        1 => format!("{{{{ {secret} | slice: {position}, 2 }}}}"),
        2 => format!("{{{{ {secret} | to_number | modulo: {} }}}}", 2 + random.below(9)),
        3 => format!("{{{{ {secret} | reveal: {}, 4 }}}}", 9 + random.below(3)),
        4 => format!("{}{{{{ d }}}}", assign_digit(random, kind)),
        _ => format!("{{{{ {secret} | hmac: 'sha-256', 'k' | to_base16 | slice: 0, 2 }}}}"),
    }
}

fn harmless(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    let known: &[&str] = match kind {
        TokenKind::Card | TokenKind::NetworkToken => {
            &["{{ data.expiration_month }}", "{{ data.expiration_year }}", "{{ data | stringify }}"]
        }
        TokenKind::Bank => &["{{ data.routing_number }}", "{{ data | stringify }}"],
        TokenKind::CardNumber | TokenKind::Account | TokenKind::Identity => &["{{ data | size }}"],
        TokenKind::Object => {
            &["{{ data.owner }}", "{{ data.code }}", "{{ data.pin }}{{ data.owner }}"]
        }
    };
    match random.below(4) {
        0 => format!("{{{{ {secret} }}}}"),
        1 => format!("{{{{ {secret} | last4 }}}}"),
        _ => (*random.pick(known)).to_owned(),
    }
}

pub(crate) fn index(random: &mut SeededRandom, kind: TokenKind) -> String {
    match random.below(10) {
        0..=5 => conditional(random, kind),
        6..=7 => extraction(random, kind),
        _ => harmless(random, kind),
    }
}

pub(crate) fn fingerprint(random: &mut SeededRandom, kind: TokenKind) -> String {
    match random.below(14) {
        0 => conditional(random, kind),
        1 => extraction(random, kind),
        2 => "constant".to_owned(),
        3..=5 => "{{ metadata.user }}".to_owned(),
        6 => format!("{}-{{{{ metadata.user }}}}", kind.default_fingerprint()),
        7..=8 => kind.default_fingerprint().to_owned(),
        9..=10 if kind.has_expiry() => "{{ data.expiration_month }}".to_owned(),
        _ => harmless(random, kind),
    }
}

/// Without filters and tags: what a conversion may be given by a caller that does not see the data.
pub(crate) fn plain_fingerprint(random: &mut SeededRandom, kind: TokenKind) -> String {
    match random.below(6) {
        0 => "{{ metadata.user }}".to_owned(),
        1 => kind.default_fingerprint().to_owned(),
        _ if kind.has_expiry() => "{{ data.expiration_month }}".to_owned(),
        _ => format!("{}-{{{{ metadata.user }}}}", kind.default_fingerprint()),
    }
}

pub(crate) fn mask(random: &mut SeededRandom, kind: TokenKind) -> Value {
    let leaf = |random: &mut SeededRandom| match random.below(3) {
        0 => conditional(random, kind),
        1 => extraction(random, kind),
        _ => harmless(random, kind),
    };
    match random.below(5) {
        0 => Value::Null,
        1 => json!({"a": leaf(random), "b": [leaf(random)]}),
        2 => json!(format!("{{{{ {} }}}}", kind.secret_path())),
        _ => json!(leaf(random)),
    }
}

pub(crate) fn id(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    match random.below(8) {
        0..=2 => format!("user-{}", 1 + random.below(2)),
        3 if !matches!(kind, TokenKind::Bank | TokenKind::Object) => {
            format!("{{{{ {secret} | alias_card: 'true', 'true' }}}}")
        }
        4 => format!("{{{{ {secret} | alias_preserve_format: 0, 4 }}}}"),
        5 => format!("id-{}", conditional(random, kind)),
        6 => format!("id-{}", extraction(random, kind)),
        _ => format!("id-{{{{ {secret} | last4 }}}}"),
    }
}

/// A detokenization expression about a token.
pub(crate) fn detokenization(random: &mut SeededRandom, reference: &str) -> String {
    let path = *random.pick(&["$.number", "$.account_number", "$.pin", "$.owner"]);
    match random.below(6) {
        0 => format!("{{{{ {reference} }}}}"),
        1 => format!("{{{{ token: {reference} }}}}"),
        2 => format!("{{{{ token: {reference} | json: '$.data' }}}}"),
        3 => format!("{{{{ {reference} | json: '{path}' }}}}"),
        4 => format!("{{{{ {reference} | json: '{path}' | slice: {} }}}}", random.below(12)),
        _ => format!("{{{{ {reference} | stringify | hmac: 'sha-256', 'k' | to_base16 }}}}"),
    }
}

/// What attackers search for.
pub(crate) const TERMS: [&str; 14] =
    ["high", "low", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "4242", "6789"];
