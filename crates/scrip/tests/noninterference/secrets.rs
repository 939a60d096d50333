//! The data that differs between the two vaults, and what the attackers have of their own.
//!
//! A hidden number looks the same in both vaults: BIN, last four digits, length and card range.

use scrip_testing::random::SeededRandom;

/// Which of the two vaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VaultSide {
    Left,
    Right,
}

/// A value of each vault.
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
    /// One attribute of an object. Attackers may use its values.
    pub(crate) pins: Vec<ValuePair>,
    /// Numbers and accounts of the attackers: they share BIN and last four digits with hidden ones.
    pub(crate) own_cards: Vec<String>,
    pub(crate) own_accounts: Vec<String>,
    pub(crate) own_identities: Vec<String>,
}

/// The other attributes of a hidden object. They are the same in both vaults, and attackers do not know them.
pub(crate) const OWNER: &str = "hidden-owner";
pub(crate) const CODE: &str = "hidden-code";
pub(crate) const ROUTING_NUMBER: &str = "021000021";

const BIN: &str = "42424242";
const LAST_FOUR: &str = "4242";

impl Secrets {
    /// The hidden values by the names of their placeholders.
    pub(crate) fn by_placeholder(&self) -> [(&'static str, &[ValuePair]); 4] {
        [
            ("card", &self.cards),
            ("account", &self.accounts),
            ("identity", &self.identities),
            ("pin", &self.pins),
        ]
    }

    pub(crate) fn draw(random: &mut SeededRandom) -> Self {
        let pairs = |random: &mut SeededRandom, make: fn(&mut SeededRandom) -> String| {
            let mut pairs: Vec<ValuePair> = Vec::new();
            while pairs.len() < 2 {
                let (left, right) = (make(random), make(random));
                let known = pairs.iter().any(|it| it.contains(&left) || it.contains(&right));
                // Every hidden digit differs, so that every digit that leaks is seen to leak.
                let differing = left.bytes().zip(right.bytes()).filter(|(a, b)| a != b).count();
                if !known && differing >= 4 {
                    pairs.push(ValuePair { left, right });
                }
            }
            pairs
        };
        let own = |random: &mut SeededRandom,
                   hidden: &[ValuePair],
                   make: fn(&mut SeededRandom) -> String| {
            let mut own = Vec::new();
            while own.len() < 3 {
                let text = make(random);
                if !hidden.iter().any(|it| it.contains(&text)) {
                    own.push(text);
                }
            }
            own
        };
        let (cards, accounts) = (pairs(random, card_number), pairs(random, account_number));
        let identities = pairs(random, identity_number);
        let mut own_cards = own(random, &cards, card_number);
        own_cards.push("4111111111111111".to_owned());
        let own_accounts = own(random, &accounts, account_number);
        let own_identities = own(random, &identities, identity_number);
        let pins = pairs(random, pin);
        Self { cards, accounts, identities, pins, own_cards, own_accounts, own_identities }
    }
}

fn digit(random: &mut SeededRandom) -> u32 {
    u32::try_from(random.below(10)).unwrap()
}

fn digits(random: &mut SeededRandom, count: usize) -> String {
    (0..count).map(|_| digit(random).to_string()).collect()
}

/// Luhn-valid: the last hidden digit makes the sum right.
fn card_number(random: &mut SeededRandom) -> String {
    let start = format!("{BIN}{}", digits(random, 3));
    let number = |last: u32| format!("{start}{last}{LAST_FOUR}");
    (0..10).map(number).find(|it| is_luhn_valid(it)).unwrap()
}

fn is_luhn_valid(number: &str) -> bool {
    let sum: u32 = number
        .bytes()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let digit = u32::from(digit - b'0');
            if at % 2 == 1 { digit * 2 / 10 + digit * 2 % 10 } else { digit }
        })
        .sum();
    sum.is_multiple_of(10)
}

fn account_number(random: &mut SeededRandom) -> String {
    format!("{}6789", digits(random, 8))
}

fn identity_number(random: &mut SeededRandom) -> String {
    format!("{}6789", digits(random, 5))
}

fn pin(random: &mut SeededRandom) -> String {
    digits(random, 4)
}
