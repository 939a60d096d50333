//! The query of a request, which is appended to the query of a base URL.

use std::borrow::Cow;

use super::{
    PROXY_KEY_PARAMETER,
    percent_encoding::{decode_completely, percent_decode},
};

/// Removes the parameter that names the proxy, in any case and encoding of its name.
pub(super) fn drop_proxy_key(query: &str) -> Cow<'_, str> {
    let is_proxy_key = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default().as_bytes();
        let name = percent_decode(name).map_or(Cow::Borrowed(name), Cow::Owned);
        name.eq_ignore_ascii_case(PROXY_KEY_PARAMETER.as_bytes())
    };
    if !query.split('&').any(|it| is_proxy_key(&it)) {
        return Cow::Borrowed(query);
    }
    let parameters: Vec<_> = query.split('&').filter(|it| !is_proxy_key(it)).collect();
    Cow::Owned(parameters.join("&"))
}

/// Whether a parameter of the query could replace one of the base query.
pub(super) fn repeats_parameter(base_query: &str, query: &str) -> bool {
    let base_names: Vec<_> = read_names(base_query).collect();
    read_names(query).any(|name| base_names.iter().any(|it| it.is_replaced_by(&name)))
}

fn read_names(query: &str) -> impl Iterator<Item = ParameterName> {
    // Some servers separate parameters with semicolons too.
    query.split(['&', ';']).map(ParameterName::read).filter(|it| !it.root.is_empty())
}

/// The name of a parameter, as the most tolerant servers read it.
struct ParameterName {
    root: Vec<u8>,
    /// The part from the first bracket: `[size]` of `page[size]`.
    index: Vec<u8>,
}

impl ParameterName {
    fn read(parameter: &str) -> Self {
        let name = parameter.split('=').next().unwrap_or_default();
        let mut name = decode_completely(name.replace('+', " ").as_bytes());
        name.make_ascii_lowercase();
        // Servers in C end a name at this character.
        let name = name.split(|it| *it == 0).next().unwrap_or_default().trim_ascii();
        // An index ends with a bracket. Without it, the first bracket is a part of the name.
        let bracket = name.iter().position(|it| *it == b'[').filter(|_| name.contains(&b']'));
        let (root, index) = name.split_at(bracket.unwrap_or(name.len()));
        // PHP cannot have these characters in names.
        let root = root.iter().map(|it| if matches!(it, b'.' | b' ' | b'[') { b'_' } else { *it });
        Self { root: root.collect(), index: index.to_vec() }
    }

    /// A parameter replaces those with the same name, and a whole list or object replaces its parts.
    fn is_replaced_by(&self, other: &Self) -> bool {
        let is_list = |it: &Self| it.index == b"[]";
        self.root == other.root
            && (is_list(self)
                || is_list(other)
                || self.index.starts_with(&other.index)
                || other.index.starts_with(&self.index))
    }
}
