//! Ranges of containers: one container, or one with all below it.

use crate::token::{Container, Containers};

/// The containers between two texts: one of them with all beneath it, or one alone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    from: String,
    /// The first text after it.
    to: String,
}

impl Span {
    /// A container ends with a slash, so whatever begins with its text is beneath it.
    #[must_use]
    pub fn beneath(container: &Container) -> Self {
        let from = container.as_str().to_owned();
        // The character after the slash.
        let to = format!("{}0", from.trim_end_matches('/'));
        Self { from, to }
    }

    #[must_use]
    pub fn only(container: &Container) -> Self {
        let from = container.as_str().to_owned();
        // Before every character that a container may go on with.
        let to = format!("{from} ");
        Self { from, to }
    }

    #[must_use]
    pub fn holds(&self, container: &Container) -> bool {
        (self.from.as_str()..self.to.as_str()).contains(&container.as_str())
    }

    #[must_use]
    pub fn from(&self) -> &str {
        &self.from
    }

    #[must_use]
    pub fn to(&self) -> &str {
        &self.to
    }

    pub(crate) fn meet(&self, other: &Self) -> Option<Self> {
        let from = self.from.as_str().max(&other.from);
        let to = self.to.as_str().min(&other.to);
        (from < to).then(|| Self { from: from.to_owned(), to: to.to_owned() })
    }
}

/// Spans apart from each other, the last in the alphabet first: the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spans(Vec<Span>);

impl Spans {
    pub(crate) fn of(mut spans: Vec<Span>) -> Self {
        spans.sort_unstable();
        let mut apart: Vec<Span> = Vec::with_capacity(spans.len());
        for span in spans {
            match apart.last_mut() {
                Some(last) if span.from <= last.to => last.to = last.to.clone().max(span.to),
                Some(_) | None => apart.push(span),
            }
        }
        apart.reverse();
        Self(apart)
    }

    pub(crate) fn meet(&self, other: &Self) -> Self {
        let meets = |one: &Span| other.0.iter().filter_map(|it| it.meet(one)).collect::<Vec<_>>();
        Self::of(self.0.iter().flat_map(meets).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &Span> {
        self.0.iter()
    }

    #[must_use]
    pub fn hold(&self, container: &Container) -> bool {
        self.iter().any(|it| it.holds(container))
    }

    /// Under which of its containers a list shows a token: the first that it looks into.
    #[must_use]
    pub fn place<'a>(&self, containers: &'a Containers) -> Option<&'a Container> {
        containers.iter().find(|it| self.hold(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(text: &str) -> Container {
        Container::parse(text).unwrap()
    }

    #[track_caller]
    fn check(span: &Span, inside: &str, expected: bool) {
        assert_eq!(span.holds(&container(inside)), expected, "{span:?} {inside}");
    }

    #[test]
    fn spans_hold_what_is_beneath() {
        let pci = Span::beneath(&container("/pci/"));
        check(&pci, "/pci/", true);
        check(&pci, "/pci/high/", true);
        check(&pci, "/pci-other/", false);
        check(&pci, "/pci0/", false);
        check(&pci, "/", false);
        check(&Span::beneath(&Container::root()), "/z/", true);
        check(&Span::beneath(&Container::root()), "/", true);
        check(&Span::only(&container("/pci/")), "/pci/", true);
        check(&Span::only(&container("/pci/")), "/pci/-/", false);
        check(&Span::only(&Container::root()), "/a/", false);
    }

    fn spans(texts: &[&str]) -> Spans {
        Spans::of(texts.iter().map(|it| Span::beneath(&container(it))).collect())
    }

    #[test]
    fn spans_lie_apart_the_last_first() {
        let joined = spans(&["/a/", "/pci/high/", "/pci/", "/a/"]);
        let froms: Vec<_> = joined.iter().map(Span::from).collect();
        assert_eq!(froms, ["/pci/", "/a/"]);
        assert_eq!(spans(&["/", "/a/"]), spans(&["/"]));
        assert_eq!(spans(&["/"]).meet(&spans(&["/a/b/", "/c/"])), spans(&["/a/b/", "/c/"]));
        assert_eq!(spans(&["/a/"]).meet(&spans(&["/b/"])), Spans::default());
    }

    #[test]
    fn a_token_is_placed_once() {
        let both = Containers::parse(["/b/", "/a/"]).unwrap();
        let placed =
            |texts: &[&str]| spans(texts).place(&both).map(Container::as_str).map(str::to_owned);
        assert_eq!(placed(&["/"]).as_deref(), Some("/b/"));
        assert_eq!(placed(&["/a/", "/b/"]).as_deref(), Some("/b/"));
        assert_eq!(placed(&["/a/"]).as_deref(), Some("/a/"));
        assert_eq!(placed(&["/c/"]), None);
    }
}
