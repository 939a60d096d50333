//! The data that differs between the two vaults, and the data of the attackers.
//!
//! A hidden number looks the same in both vaults: BIN, last four digits, length and card range.

use scrip_testing::random::SeededRandom;

/// One of the two vaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VaultSide {
    Left,
    Right,
}

/// The values of one secret in the two vaults.
#[derive(Debug, Clone)]
pub(crate) struct ValuePair {
    pub(crate) left: String,
    pub(crate) right: String,
}

impl ValuePair {
    pub(crate) fn value_in(&self, side: VaultSide) -> &str {
        match side {
            VaultSide::Left => &self.left,
            VaultSide::Right => &self.right,
        }
    }

    fn contains(&self, text: &str) -> bool {
        self.left == text || self.right == text
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Secrets {
    pub(crate) cards: Vec<ValuePair>,
    pub(crate) accounts: Vec<ValuePair>,
    pub(crate) identities: Vec<ValuePair>,
    /// The attribute of an object that differs. Attackers may guess its values.
    pub(crate) pins: Vec<ValuePair>,
    pub(crate) codes: Vec<ValuePair>,
    /// The secret in the configuration of proxies.
    pub(crate) configurations: Vec<ValuePair>,
    /// Numbers and accounts of the attackers. They share BIN and last four digits with hidden ones.
    pub(crate) own_cards: Vec<String>,
    pub(crate) own_accounts: Vec<String>,
    pub(crate) own_identities: Vec<String>,
}

/// The other attributes of a hidden object. They are the same in both vaults, and attackers do not
/// know them.
pub(crate) const OWNER: &str = "hidden-owner";
pub(crate) const CODE: &str = "hidden-code";
pub(crate) const ROUTING_NUMBER: &str = "021000021";

/// The secret in the configuration of every proxy. One side has a digit where the other one has a
/// letter, so that filters for numbers fail on one side only.
pub(crate) const CONFIGURATION: [&str; 2] = ["sk-1whfkxw2", "sk-mnx4dovb"];

const BIN: &str = "42424242";
const LAST_FOUR: &str = "4242";

impl Secrets {
    /// The hidden values by the names of their placeholders.
    pub(crate) fn values_by_placeholder(&self) -> [(&'static str, &[ValuePair]); 6] {
        [
            ("card", &self.cards),
            ("account", &self.accounts),
            ("identity", &self.identities),
            ("pin", &self.pins),
            ("cvc", &self.codes),
            ("configuration", &self.configurations),
        ]
    }

    pub(crate) fn draw(random: &mut SeededRandom) -> Self {
        let generate_pairs =
            |random: &mut SeededRandom, generate: fn(&mut SeededRandom) -> String| {
                let mut pairs: Vec<ValuePair> = Vec::new();
                while pairs.len() < 2 {
                    let (left, right) = (generate(random), generate(random));
                    let is_repeated =
                        pairs.iter().any(|it| it.contains(&left) || it.contains(&right));
                    // At least four digits differ, so that a leak of a digit is detected.
                    let differing_digits =
                        left.bytes().zip(right.bytes()).filter(|(a, b)| a != b).count();
                    if !is_repeated && differing_digits >= 4 {
                        pairs.push(ValuePair { left, right });
                    }
                }
                pairs
            };
        let generate_attacker_values =
            |random: &mut SeededRandom,
             hidden: &[ValuePair],
             generate: fn(&mut SeededRandom) -> String| {
                let mut values = Vec::new();
                while values.len() < 3 {
                    let text = generate(random);
                    if !hidden.iter().any(|it| it.contains(&text)) && !values.contains(&text) {
                        values.push(text);
                    }
                }
                values
            };
        let (cards, accounts) = (
            generate_pairs(random, random_card_number),
            generate_pairs(random, random_account_number),
        );
        let identities = generate_pairs(random, random_identity_number);
        let mut own_cards = generate_attacker_values(random, &cards, random_card_number);
        own_cards.push("4111111111111111".to_owned());
        let own_accounts = generate_attacker_values(random, &accounts, random_account_number);
        let own_identities = generate_attacker_values(random, &identities, random_identity_number);
        let pins = generate_pairs(random, random_pin);
        let codes = vec![ValuePair { left: "111".to_owned(), right: "222".to_owned() }];
        let [left, right] = CONFIGURATION.map(str::to_owned);
        let configurations = vec![ValuePair { left, right }];
        Self {
            cards,
            accounts,
            identities,
            pins,
            codes,
            configurations,
            own_cards,
            own_accounts,
            own_identities,
        }
    }
}

fn random_digit(random: &mut SeededRandom) -> u32 {
    u32::try_from(random.below(10)).unwrap()
}

fn random_digits(random: &mut SeededRandom, count: usize) -> String {
    (0..count).map(|_| random_digit(random).to_string()).collect()
}

/// Generates a Luhn-valid card number. The last hidden digit is chosen to match the checksum.
fn random_card_number(random: &mut SeededRandom) -> String {
    let prefix = format!("{BIN}{}", random_digits(random, 3));
    let complete_number =
        |last_hidden_digit: u32| format!("{prefix}{last_hidden_digit}{LAST_FOUR}");
    (0..10).map(complete_number).find(|it| is_luhn_valid(it)).unwrap()
}

fn is_luhn_valid(number: &str) -> bool {
    let sum: u32 = number
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0');
            if index % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Generates a number that no card has: a proxy that collects a card from an answer accepts it or not,
/// so the checksum of a repeated number is visible, and hidden accounts must not differ in it. It does
/// not begin with zero either: a browser that submits an account in front of other digits gets no
/// fingerprint if they have more than 20 parts with a checksum, and each leading zero doubles many.
fn random_account_number(random: &mut SeededRandom) -> String {
    let (first_digit, digits) = (random_digit(random), random_digits(random, 7));
    let complete_number = |first_digit: u32| format!("{}{digits}6789", first_digit % 10);
    let is_usable = |it: &String| !it.starts_with('0') && !is_luhn_valid(it);
    (first_digit..).map(complete_number).find(is_usable).unwrap()
}

fn random_identity_number(random: &mut SeededRandom) -> String {
    format!("{}6789", random_digits(random, 5))
}

fn random_pin(random: &mut SeededRandom) -> String {
    random_digits(random, 4)
}
