//! The query of a request, which is appended to the query of a base URL.

use std::{borrow::Cow, collections::HashMap};

use crate::policy::destination::destination_url::path::{decode_completely, percent_decode};

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

/// Names of form fields, to find other fields that a tolerant server could take in their place.
#[derive(Debug, Clone, Default)]
pub struct FieldNames(HashMap<Vec<u8>, Vec<Vec<u8>>>);

impl FieldNames {
    /// A name with more indexes than this counts as a list, so that a lookup takes a bounded time.
    const INDEXES_MAX: usize = 8;

    /// Adds the names of the fields of a form that `is_new` accepts.
    pub fn add(&mut self, form: &str, is_new: impl Fn(&str) -> bool) {
        for field in form.split('&').filter(|it| is_new(it)) {
            for ParameterName { root, index } in read_names(field) {
                let indexes = self.0.entry(root).or_default();
                if indexes.len() >= Self::INDEXES_MAX {
                    *indexes = vec![ParameterName::LIST.to_vec()];
                }
                if !indexes.contains(&index) {
                    indexes.push(index);
                }
            }
        }
    }

    /// Whether a server could take this field of a form for one of the names.
    pub fn matches(&self, field: &str) -> bool {
        read_names(field).any(|name| {
            let mut indexes = self.0.get(&name.root).into_iter().flatten();
            indexes.any(|it| ParameterName::is_index_replaced_by(it, &name.index))
        })
    }
}

/// The name of a parameter, as the most tolerant servers read it.
struct ParameterName {
    root: Vec<u8>,
    /// The part from the first bracket: `[size]` of `page[size]`.
    index: Vec<u8>,
}

impl ParameterName {
    const LIST: &[u8] = b"[]";

    fn read(parameter: &str) -> Self {
        let name = parameter.split('=').next().unwrap_or_default();
        let mut name = decode_completely(name.replace('+', " ").as_bytes());
        name.make_ascii_lowercase();
        // Servers in C end a name at this character.
        let name = name.split(|it| *it == 0).next().unwrap_or_default().trim_ascii();
        // An index ends with a bracket. Without it, the first bracket is a part of the name.
        let bracket = name.iter().position(|it| *it == b'[').filter(|_| name.contains(&b']'));
        let (root, index) = name.split_at(bracket.unwrap_or(name.len()));
        // PHP cannot have most of these characters in names, and some servers treat `-` like `_`.
        let to_root_byte = |it: &u8| if b". [-".contains(it) { b'_' } else { *it };
        let root = root.iter().map(to_root_byte);
        Self { root: root.collect(), index: index.to_vec() }
    }

    /// A parameter replaces those with the same name, and a whole list or object replaces its parts.
    fn is_replaced_by(&self, other: &Self) -> bool {
        self.root == other.root && Self::is_index_replaced_by(&self.index, &other.index)
    }

    /// Takes at most the time to read the shorter one: a long index is compared with each field of a
    /// form.
    fn is_index_replaced_by(index: &[u8], other: &[u8]) -> bool {
        index == Self::LIST
            || other == Self::LIST
            || index.starts_with(other)
            || other.starts_with(index)
    }
}

/// The query parameter that names a proxy. It is a secret of the vault.
pub const PROXY_KEY_PARAMETER: &str = "bt-proxy-key";
