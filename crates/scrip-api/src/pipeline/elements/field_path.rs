//! The paths of the hosted fields.

use scrip_elements::FramePage;

/// A path of the hosted fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldPath {
    /// The script of the page, in its current release.
    ClientScript,
    Page(FramePage),
    /// A file of one release.
    ReleaseFile {
        release: String,
        name: String,
    },
    /// Below the paths of the fields, but unknown.
    Unknown,
}

impl FieldPath {
    /// Parses a path. `None` if the path is not one of the fields. The version in a path is the one
    /// of the npm package that loads the fields, and any version gets the same files.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        match segments.next()? {
            "elements" => Some(parse_elements(segments)),
            "web-elements" => Some(parse_web_elements(segments)),
            _ => None,
        }
    }
}

fn parse_elements<'a>(mut segments: impl Iterator<Item = &'a str>) -> FieldPath {
    match (segments.next(), segments.next(), segments.next()) {
        (Some("client.js"), None, None) => FieldPath::ClientScript,
        (Some(release), Some(name), None) => {
            FieldPath::ReleaseFile { release: release.to_owned(), name: name.to_owned() }
        }
        _ => FieldPath::Unknown,
    }
}

fn parse_web_elements<'a>(mut segments: impl Iterator<Item = &'a str>) -> FieldPath {
    let path = [(); 4].map(|()| segments.next());
    match path {
        [Some(""), ..] => FieldPath::Unknown,
        [_, Some("client"), Some("index.js"), None] => FieldPath::ClientScript,
        [_, Some("hosted-elements"), Some(name), None] => FramePage::ALL
            .into_iter()
            .find(|it| it.file_name() == name)
            .map_or(FieldPath::Unknown, FieldPath::Page),
        _ => FieldPath::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_paths_are_parsed_by_whole_segments() {
        let file = |release: &str, name: &str| {
            Some(FieldPath::ReleaseFile { release: release.to_owned(), name: name.to_owned() })
        };
        let cases = [
            ("/elements/client.js", Some(FieldPath::ClientScript)),
            ("/web-elements/2.17.0/client/index.js", Some(FieldPath::ClientScript)),
            ("/web-elements/1/hosted-elements/field.html", Some(FieldPath::Page(FramePage::Field))),
            (
                "/web-elements/1/hosted-elements/controller.html",
                Some(FieldPath::Page(FramePage::Controller)),
            ),
            ("/elements/0123/field.js", file("0123", "field.js")),
            ("/elements/0123/../field.js", Some(FieldPath::Unknown)),
            ("/elements", Some(FieldPath::Unknown)),
            ("/elements/0123", Some(FieldPath::Unknown)),
            ("/web-elements", Some(FieldPath::Unknown)),
            ("/web-elements/1/hosted-elements", Some(FieldPath::Unknown)),
            ("/web-elements/1/hosted-elements/client.js", Some(FieldPath::Unknown)),
            ("/web-elements/1/hosted-elements/field.html/x", Some(FieldPath::Unknown)),
            ("/web-elements//client/index.js", Some(FieldPath::Unknown)),
            ("/elementsx/client.js", None),
            ("/tokens/elements", None),
            ("/", None),
        ];
        for (path, expected) in cases {
            assert_eq!(FieldPath::parse(path), expected, "{path}");
        }
    }
}
