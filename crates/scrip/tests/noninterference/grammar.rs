//! A grammar for expressions: masks, ids, fingerprints and search indexes, including expressions
//! that compute with hidden digits.

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

    /// The path of the hidden digits.
    fn secret_path(self) -> &'static str {
        match self {
            Self::Card | Self::NetworkToken => "data.number",
            Self::CardNumber | Self::Account | Self::Identity => "data",
            Self::Bank => "data.account_number",
            Self::Object => "data.pin",
        }
    }

    /// The positions of the hidden digits.
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

/// Expiration years of the generated cards. [`assign_digit`] subtracts 2030 from the year, so these
/// years select the hidden positions 8 to 11 of a card number.
pub(crate) const EXPIRATION_YEARS: [i32; 4] = [2038, 2039, 2040, 2041];

/// Generates an expression that assigns one hidden digit to `d`.
fn assign_digit(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    if kind.has_expiry() && random.chance_in_percent(40) {
        let assign_position = "{% assign p = data.expiration_year | minus: 2030 %}";
        return format!("{assign_position}{{% assign d = {secret} | slice: p %}}");
    }
    let position = random.pick(kind.hidden_positions());
    format!("{{% assign d = {secret} | slice: {position} %}}")
}

/// Generates assignments and a condition on hidden digits that uses them.
fn generate_condition(random: &mut SeededRandom, kind: TokenKind) -> (String, String) {
    let digit = random.below(10);
    match random.below(4) {
        0 => (assign_digit(random, kind), format!("d == '{digit}'")),
        1 => (String::new(), format!("{} contains '{digit}'", kind.secret_path())),
        2 => (
            String::new(),
            format!("{} contains '{digit}{}'", kind.secret_path(), random.below(10)),
        ),
        _ => {
            let assignment = assign_digit(random, kind);
            (format!("{assignment}{{% assign n = d | to_number %}}"), "n < 5".to_owned())
        }
    }
}

/// Generates an expression that tests hidden digits. The result is a text, an empty text or an
/// error.
fn conditional_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
    let (assignments, condition) = generate_condition(random, kind);
    match random.below(6) {
        0 => format!("{assignments}{{% if {condition} %}}high{{% endif %}}"),
        1 => format!("{assignments}{{% unless {condition} %}}high{{% endunless %}}"),
        2..=4 => format!("{assignments}{{% if {condition} %}}high{{% else %}}low{{% endif %}}"),
        _ => format!(
            "{assignments}{{% if {condition} %}}{{{{ 1 | divided_by: 0 }}}}\
             {{% else %}}low{{% endif %}}"
        ),
    }
}

/// Generates an expression that returns hidden digits or computes with them.
fn extraction_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
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

/// Generates an expression that honest clients use, too: the whole secret, its last four digits or
/// attributes that are not secret.
fn common_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    let attribute_expressions: &[&str] = match kind {
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
        _ => (*random.pick(attribute_expressions)).to_owned(),
    }
}

pub(crate) fn index_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
    match random.below(10) {
        0..=5 => conditional_expression(random, kind),
        6..=7 => extraction_expression(random, kind),
        _ => common_expression(random, kind),
    }
}

pub(crate) fn fingerprint_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
    match random.below(14) {
        0 => conditional_expression(random, kind),
        1 => extraction_expression(random, kind),
        2 => "constant".to_owned(),
        3..=5 => "{{ metadata.user }}".to_owned(),
        6 => format!("{}-{{{{ metadata.user }}}}", kind.default_fingerprint()),
        7..=8 => kind.default_fingerprint().to_owned(),
        9..=10 if kind.has_expiry() => "{{ data.expiration_month }}".to_owned(),
        _ => common_expression(random, kind),
    }
}

/// Generates a fingerprint expression without filters and tags. A caller without a reveal right may
/// use such an expression in a conversion.
pub(crate) fn plain_fingerprint_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
    match random.below(6) {
        0 => "{{ metadata.user }}".to_owned(),
        1 => kind.default_fingerprint().to_owned(),
        _ if kind.has_expiry() => "{{ data.expiration_month }}".to_owned(),
        _ => format!("{}-{{{{ metadata.user }}}}", kind.default_fingerprint()),
    }
}

pub(crate) fn mask_expression(random: &mut SeededRandom, kind: TokenKind) -> Value {
    let generate_leaf = |random: &mut SeededRandom| match random.below(3) {
        0 => conditional_expression(random, kind),
        1 => extraction_expression(random, kind),
        _ => common_expression(random, kind),
    };
    match random.below(5) {
        0 => Value::Null,
        1 => json!({"a": generate_leaf(random), "b": [generate_leaf(random)]}),
        2 => json!(format!("{{{{ {} }}}}", kind.secret_path())),
        _ => json!(generate_leaf(random)),
    }
}

/// The mask of an honest application in which one input decides what is shown of another one. With the
/// hidden data it shows the same text in both vaults; patches of attackers contain the values that it
/// compares with.
pub(crate) fn two_input_mask(kind: TokenKind) -> Option<Value> {
    let condition = match kind {
        TokenKind::Object => "data.code == 'x'",
        TokenKind::Bank => "data.routing_number == '011000015'",
        TokenKind::Card | TokenKind::NetworkToken => "data.expiration_year == 2038",
        TokenKind::CardNumber | TokenKind::Account | TokenKind::Identity => return None,
    };
    let secret = kind.secret_path();
    Some(
        json!({"a": format!("{{% if {condition} %}}{{{{ {secret} }}}}{{% endif %}}"), "b": "fixed"}),
    )
}

pub(crate) fn id_expression(random: &mut SeededRandom, kind: TokenKind) -> String {
    let secret = kind.secret_path();
    match random.below(8) {
        0..=2 => format!("user-{}", 1 + random.below(2)),
        3 if !matches!(kind, TokenKind::Bank | TokenKind::Object) => {
            format!("{{{{ {secret} | alias_card: 'true', 'true' }}}}")
        }
        4 => format!("{{{{ {secret} | alias_preserve_format: 0, 4 }}}}"),
        5 => format!("id-{}", conditional_expression(random, kind)),
        6 => format!("id-{}", extraction_expression(random, kind)),
        _ => format!("id-{{{{ {secret} | last4 }}}}"),
    }
}

/// Generates a detokenization expression that reads the token `reference`.
pub(crate) fn detokenization_expression(random: &mut SeededRandom, reference: &str) -> String {
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

/// Terms that attackers search for.
pub(crate) const SEARCH_TERMS: [&str; 14] =
    ["high", "low", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "4242", "6789"];
