//! Ranges of containers: one container, or a container with all containers below it.

use crate::types::{Container, Containers};

/// The containers between two texts: one subtree, or one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRange {
    from: String,
    /// The first text after the range.
    to: String,
}

impl ContainerRange {
    /// The range of a container and all containers below it. A container ends with a slash, so
    /// every container with this prefix is below it.
    pub(crate) fn subtree(container: &Container) -> Self {
        let from = container.as_str().to_owned();
        // `0` is the character after the slash.
        let to = format!("{}0", from.trim_end_matches('/'));
        Self { from, to }
    }

    /// The range of only this container.
    pub fn single(container: &Container) -> Self {
        let from = container.as_str().to_owned();
        // A space sorts before every character that may follow in a container.
        let to = format!("{from} ");
        Self { from, to }
    }

    pub fn contains(&self, container: &Container) -> bool {
        (self.from.as_str()..self.to.as_str()).contains(&container.as_str())
    }

    pub fn from(&self) -> &str {
        &self.from
    }

    pub fn to(&self) -> &str {
        &self.to
    }

    pub(crate) fn intersect(&self, other: &Self) -> Option<Self> {
        let from = self.from.as_str().max(&other.from);
        let to = self.to.as_str().min(&other.to);
        (from < to).then(|| Self { from: from.to_owned(), to: to.to_owned() })
    }
}

/// Disjoint ranges in descending order, which is the order of lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerRanges(Vec<ContainerRange>);

impl ContainerRanges {
    pub(crate) fn from_ranges(mut ranges: Vec<ContainerRange>) -> Self {
        ranges.sort_unstable();
        let mut disjoint: Vec<ContainerRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            match disjoint.last_mut() {
                Some(last) if range.from <= last.to => last.to = last.to.clone().max(range.to),
                Some(_) | None => disjoint.push(range),
            }
        }
        disjoint.reverse();
        Self(disjoint)
    }

    pub(crate) fn intersect(&self, other: &Self) -> Self {
        let overlaps = |range: &ContainerRange| {
            other.0.iter().filter_map(|it| it.intersect(range)).collect::<Vec<_>>()
        };
        Self::from_ranges(self.0.iter().flat_map(overlaps).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &ContainerRange> {
        self.0.iter()
    }

    pub fn contains(&self, container: &Container) -> bool {
        self.iter().any(|it| it.contains(container))
    }

    /// The container under which a list shows a token: the first one within the ranges.
    pub fn listed_container<'a>(&self, containers: &'a Containers) -> Option<&'a Container> {
        containers.iter().find(|it| self.contains(it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(text: &str) -> Container {
        Container::parse(text).unwrap()
    }

    #[track_caller]
    fn check(range: &ContainerRange, text: &str, expected: bool) {
        assert_eq!(range.contains(&container(text)), expected, "{range:?} contains {text}");
    }

    #[test]
    fn container_range_contains_only_its_subtree() {
        let pci = ContainerRange::subtree(&container("/pci/"));
        check(&pci, "/pci/", true);
        check(&pci, "/pci/high/", true);
        check(&pci, "/pci-other/", false);
        check(&pci, "/pci0/", false);
        check(&pci, "/", false);
        check(&ContainerRange::subtree(&Container::root()), "/z/", true);
        check(&ContainerRange::subtree(&Container::root()), "/", true);
        check(&ContainerRange::single(&container("/pci/")), "/pci/", true);
        check(&ContainerRange::single(&container("/pci/")), "/pci/-/", false);
        check(&ContainerRange::single(&Container::root()), "/a/", false);
    }

    fn ranges(texts: &[&str]) -> ContainerRanges {
        ContainerRanges::from_ranges(
            texts.iter().map(|it| ContainerRange::subtree(&container(it))).collect(),
        )
    }

    #[test]
    fn container_ranges_are_merged_and_sorted_descending() {
        let merged = ranges(&["/a/", "/pci/high/", "/pci/", "/a/"]);
        let starts: Vec<_> = merged.iter().map(ContainerRange::from).collect();
        assert_eq!(starts, ["/pci/", "/a/"]);
        assert_eq!(ranges(&["/", "/a/"]), ranges(&["/"]));
        assert_eq!(ranges(&["/"]).intersect(&ranges(&["/a/b/", "/c/"])), ranges(&["/a/b/", "/c/"]));
        assert_eq!(ranges(&["/a/"]).intersect(&ranges(&["/b/"])), ContainerRanges::default());
    }

    #[test]
    fn token_is_listed_under_its_first_matching_container() {
        let containers = Containers::parse(["/b/", "/a/"]).unwrap();
        let find_listed = |texts: &[&str]| {
            ranges(texts).listed_container(&containers).map(Container::as_str).map(str::to_owned)
        };
        assert_eq!(find_listed(&["/"]).as_deref(), Some("/b/"));
        assert_eq!(find_listed(&["/a/", "/b/"]).as_deref(), Some("/b/"));
        assert_eq!(find_listed(&["/a/"]).as_deref(), Some("/a/"));
        assert_eq!(find_listed(&["/c/"]), None);
    }
}
