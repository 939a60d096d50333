//! A token or a token intent that an expression names.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    /// Only the data of a token.
    Data,
    /// A token with all its attributes.
    Token,
    TokenIntent,
}

/// A token or a token intent that an expression names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub kind: ReferenceKind,
    pub id: String,
}

pub(crate) fn parse_reference(id_text: &str) -> Result<Reference, &'static str> {
    let strip_kind = |prefix: &str| {
        let text_after = id_text.trim_start().strip_prefix(prefix)?;
        text_after.trim_start().strip_prefix(':')
    };
    let (kind, id) = if let Some(id) = strip_kind("token_intent") {
        (ReferenceKind::TokenIntent, id)
    } else if let Some(id) = strip_kind("token") {
        (ReferenceKind::Token, id)
    } else {
        (ReferenceKind::Data, id_text)
    };
    let id = id.trim();
    if id.is_empty() {
        return Err("an id was expected");
    }
    let forbidden = |it: char| "#/\\+?[]|&=%<>{}^".contains(it);
    if !(3..=400).contains(&id.chars().count()) || id.contains(forbidden) {
        return Err("this is not an id");
    }
    Ok(Reference { kind, id: id.to_owned() })
}
