//! What the values of hosted fields in a request are.

/// The kinds of the values of hosted fields in a request. The frame names them, because it knows which
/// element a payer typed into; the vault knows where the values are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldKinds {
    has_values: bool,
    /// Names of attributes of a card, in the order of [`CARD_ATTRIBUTES`].
    attributes: [bool; 4],
    has_card: bool,
    has_text: bool,
}

/// The kinds with an attribute of their own in a card, and these attributes.
const CARD_ATTRIBUTES: [(&str, &str); 4] = [
    ("number", "number"),
    ("month", "expiration_month"),
    ("year", "expiration_year"),
    ("code", "cvc"),
];

impl FieldKinds {
    /// The kinds of a request with values that it does not name: a page must not learn anything about
    /// them.
    pub const UNNAMED: Self =
        Self { has_values: true, attributes: [false; 4], has_card: false, has_text: true };

    /// Parses a list such as `number, code`. `none` is a list without values. An unknown kind is a
    /// text, about which a page learns the least.
    pub fn parse(list: &str) -> Self {
        if list.trim() == "none" {
            return Self::default();
        }
        let mut kinds = Self { has_values: true, ..Self::default() };
        for name in list.split(',').map(str::trim) {
            let mut attributes = kinds.attributes.iter_mut().zip(CARD_ATTRIBUTES);
            match attributes.find(|(_, (kind, _))| *kind == name) {
                Some((has_kind, _)) => *has_kind = true,
                None if name == "card" => kinds.has_card = true,
                None => kinds.has_text = true,
            }
        }
        kinds
    }

    pub(crate) fn has_values(self) -> bool {
        self.has_values
    }

    pub(crate) fn has_text(self) -> bool {
        self.has_text
    }

    pub(crate) fn has_card(self) -> bool {
        self.has_card
    }

    /// The attributes of a card that hold the values.
    pub(crate) fn card_attributes(self) -> impl Iterator<Item = &'static str> {
        let named = self.attributes.into_iter().zip(CARD_ATTRIBUTES);
        named.filter(|(has_kind, _)| *has_kind).map(|(_, (_, attribute))| attribute)
    }
}
