//! Renders the document as a page: plain HTML, no script, no external resources.

mod html;
mod schema_summary;

use serde_json::Value;

use crate::openapi::page::{
    html::{escape, inline_code, list, table, text},
    schema_summary::{attribute_table, describe_schema},
};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// One operation of the document.
struct PageOperation<'a> {
    method: &'static str,
    path: &'a str,
    value: &'a Value,
}

impl<'a> PageOperation<'a> {
    fn text(&self, name: &str) -> &'a str {
        text(self.value, name)
    }

    fn has_tag(&self, tag: &str) -> bool {
        list(self.value, "tags").any(|it| it == tag)
    }

    /// Whether the operation never succeeds.
    fn is_removed(&self) -> bool {
        let responses = self.value.get("responses").and_then(Value::as_object);
        responses.is_some_and(|it| it.keys().all(|status| status.starts_with(['4', '5'])))
    }
}

pub(super) fn render(document: &Value) -> String {
    let operations = operations(document);
    let info = document.get("info").unwrap_or(&Value::Null);
    let (title, version) = (escape(text(info, "title")), escape(text(info, "version")));
    let index = index(document, &operations);
    let description = paragraphs(text(info, "description"));
    let sections: String =
        list(document, "tags").map(|tag| section(document, tag, &operations)).collect();
    let schemas = schemas(document);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} {version}</title>\n<link rel=\"stylesheet\" href=\"/docs/style.css\">\n</head>\n\
         <body>\n<nav aria-label=\"Contents\">\n<p class=\"title\"><a href=\"#top\">{title}</a> \
         <small>{version}</small></p>\n{index}</nav>\n<main id=\"top\">\n<header>\n<h1>{title}</h1>\n\
         <p class=\"lead\">{summary}</p>\n{description}\n<p>OpenAPI document: <a href=\"/openapi.json\">\
         <code>/openapi.json</code></a></p>\n</header>\n{sections}{schemas}</main>\n</body>\n</html>\n",
        summary = escape(text(info, "summary")),
    )
}

fn operations(document: &Value) -> Vec<PageOperation<'_>> {
    let mut operations = Vec::new();
    let paths = document.get("paths").and_then(Value::as_object);
    for (path, item) in paths.into_iter().flatten() {
        for method in METHODS {
            operations.extend(item.get(method).map(|value| PageOperation { method, path, value }));
        }
    }
    operations
}

fn index(document: &Value, operations: &[PageOperation<'_>]) -> String {
    let entry = |it: &PageOperation<'_>| {
        let class = if it.is_removed() { " class=\"removed\"" } else { "" };
        format!(
            "<li><a href=\"#{id}\"{class}>{method} <span>{path}</span></a></li>\n",
            id = escape(it.text("operationId")),
            method = badge(it.method),
            path = escape(it.path),
        )
    };
    let tag_entry = |tag: &Value| {
        let name = text(tag, "name");
        let entries: String = operations.iter().filter(|it| it.has_tag(name)).map(entry).collect();
        let (anchor, name) = (anchor(name), escape(name));
        format!("<p><a href=\"#{anchor}\">{name}</a></p>\n<ul>\n{entries}</ul>\n")
    };
    let tags: String = list(document, "tags").map(tag_entry).collect();
    format!("{tags}<p><a href=\"#schemas\">Schemas</a></p>\n")
}

fn section(document: &Value, tag: &Value, operations: &[PageOperation<'_>]) -> String {
    let name = text(tag, "name");
    let tagged = operations.iter().filter(|it| it.has_tag(name));
    let articles: String = tagged.map(|it| article(document, it)).collect();
    format!(
        "<section id=\"{anchor}\">\n<h2>{name}</h2>\n{about}\n{articles}</section>\n",
        anchor = anchor(name),
        name = escape(name),
        about = paragraphs(text(tag, "description")),
    )
}

fn article(document: &Value, operation: &PageOperation<'_>) -> String {
    let id = escape(operation.text("operationId"));
    let badge_text = match operation.value.get("deprecated") {
        None => "",
        Some(_) if operation.is_removed() => " <em>removed</em>",
        // The dates of a deprecation are those of the hosted service: here the operation works.
        Some(_) => " <em>older version, supported</em>",
    };
    format!(
        "<article id=\"{id}\">\n<h3><a href=\"#{id}\">{summary}</a>{badge_text}</h3>\n\
         <p class=\"call\">{method} <code>{path}</code></p>\n{about}\n{samples}{parameters}{body}{responses}\
         </article>\n",
        summary = escape(operation.text("summary")),
        method = badge(operation.method),
        path = escape(operation.path),
        about = paragraphs(operation.text("description")),
        samples = samples(&id, operation.value),
        parameters = parameters(document, operation.value),
        body = body(document, operation.value),
        responses = responses(document, operation.value),
    )
}

/// A tab for each language. Radio buttons select the sample, so no script is needed.
fn samples(id: &str, operation: &Value) -> String {
    let (mut tabs, mut sources) = (String::new(), String::new());
    for (index, sample) in list(operation, "x-codeSamples").enumerate() {
        let (label, source) = (escape(text(sample, "label")), escape(text(sample, "source")));
        let checked = if index == 0 { " checked" } else { "" };
        tabs.push_str(&format!(
            "<input type=\"radio\" name=\"samples-{id}\" id=\"sample-{id}-{index}\"{checked}>\
             <label for=\"sample-{id}-{index}\">{label}</label>\n"
        ));
        sources.push_str(&format!(
            "<pre tabindex=\"0\" role=\"region\" aria-label=\"{label} sample\"><code>{source}</code></pre>\n"
        ));
    }
    if tabs.is_empty() {
        return tabs;
    }
    format!(
        "<fieldset class=\"samples\">\n<legend><h4>Samples</h4></legend>\n{tabs}{sources}</fieldset>\n"
    )
}

fn parameters(document: &Value, operation: &Value) -> String {
    let row = |it: &Value| {
        let it = resolve(document, it);
        let schema = it.get("schema").unwrap_or(&Value::Null);
        let presence = if it.get("required").is_some() { "required" } else { "optional" };
        format!(
            "<tr><td><code>{name}</code></td><td>{place}, {presence}</td><td>{shape}</td>\
             <td>{about}</td></tr>\n",
            name = escape(text(it, "name")),
            place = escape(text(it, "in")),
            shape = describe_schema(schema),
            about = inline_code(text(it, "description")),
        )
    };
    let rows: String = list(operation, "parameters").map(row).collect();
    if rows.is_empty() { rows } else { format!("<h4>Parameters</h4>\n{}", table(&rows)) }
}

fn body(document: &Value, operation: &Value) -> String {
    let Some(content) = operation.get("requestBody").and_then(|it| it.get("content")) else {
        return String::new();
    };
    format!("<h4>Request</h4>\n{}", render_content(document, content))
}

/// Renders successful responses in full, and problems in one line each.
fn responses(document: &Value, operation: &Value) -> String {
    let responses = operation.get("responses").and_then(Value::as_object);
    let (mut successes, mut problems) = (String::new(), String::new());
    for (status, response) in responses.into_iter().flatten() {
        let response = resolve(document, response);
        let about = inline_code(text(response, "description"));
        let status = escape(status);
        if status.starts_with('2') {
            let content =
                response.get("content").map(|it| render_content(document, it)).unwrap_or_default();
            successes
                .push_str(&format!("<p><b class=\"good\">{status}</b> {about}</p>\n{content}"));
        } else {
            problems.push_str(&format!(
                "<tr><td><b class=\"bad\">{status}</b></td><td>{about}</td></tr>\n"
            ));
        }
    }
    if !problems.is_empty() {
        let link = "<a href=\"#schema-Problem\">Problem</a>";
        problems = format!(
            "<details>\n<summary>Problems</summary>\n<p>Each one is a {link}.</p>\n<table>\n{problems}</table>\n</details>\n"
        );
    }
    format!("<h4>Responses</h4>\n{successes}{problems}")
}

/// A body: its content type, its attributes and an example.
fn render_content(document: &Value, content: &Value) -> String {
    let render_media = |(kind, media): (&String, &Value)| {
        let schema = media.get("schema").unwrap_or(&Value::Null);
        let resolved = resolve(document, schema);
        let table = attribute_table(resolved);
        let table = if table.is_empty() {
            table
        } else {
            format!("<details>\n<summary>Attributes</summary>\n{table}</details>\n")
        };
        let first_example = list(resolved, "examples").next();
        let example = first_example.map(|it| {
            let example = example(it);
            format!("<details open>\n<summary>Example</summary>\n{example}</details>\n")
        });
        format!(
            "<p><code>{kind}</code>: {shape}</p>\n{table}{example}",
            kind = escape(kind),
            shape = describe_schema(schema),
            example = example.unwrap_or_default(),
        )
    };
    content.as_object().into_iter().flatten().map(render_media).collect()
}

fn schemas(document: &Value) -> String {
    let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
    let render_schema = |(name, schema): (&String, &Value)| {
        let examples: String = list(schema, "examples").map(example).collect();
        let table = attribute_table(schema);
        let table =
            if table.is_empty() { format!("<p>{}</p>\n", describe_schema(schema)) } else { table };
        format!(
            "<article id=\"schema-{name}\">\n<h3><a href=\"#schema-{name}\">{name}</a></h3>\n{about}\n\
             {table}{examples}</article>\n",
            name = escape(name),
            about = paragraphs(text(schema, "description")),
        )
    };
    let articles: String = schemas.into_iter().flatten().map(render_schema).collect();
    format!("<section id=\"schemas\">\n<h2>Schemas</h2>\n{articles}</section>\n")
}

fn example(value: &Value) -> String {
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    format!("<pre><code>{}</code></pre>\n", escape(&pretty))
}

fn badge(method: &str) -> String {
    format!("<b class=\"method {method}\">{}</b>", method.to_ascii_uppercase())
}

fn anchor(name: &str) -> String {
    format!("tag-{}", name.to_ascii_lowercase().replace(' ', "-"))
}

/// Resolves a reference; returns any other value unchanged.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    let pointer = value.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix('#'));
    pointer.and_then(|it| document.pointer(it)).unwrap_or(value)
}

fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|it| !it.is_empty());
    paragraphs.map(|it| format!("<p>{}</p>\n", inline_code(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::document;

    #[track_caller]
    fn check_entry(id: &str, class: &str, badge: &str) {
        let page = render(document());
        let entry = format!("<li><a href=\"#{id}\"{class}>");
        assert!(page.contains(&entry), "{id} is not listed as {entry}");
        let (_, article) = page.split_once(&format!("<article id=\"{id}\">")).unwrap();
        let heading = article.lines().find(|it| it.starts_with("<h3>")).unwrap();
        assert!(heading.ends_with(&format!("</a>{badge}</h3>")), "{heading}");
    }

    #[test]
    fn only_removed_operations_are_struck_out() {
        check_entry("list_tokens", "", "");
        check_entry("list_tokens_v1", "", " <em>older version, supported</em>");
        check_entry("search_tokens_v1", "", " <em>older version, supported</em>");
        let class = " class=\"removed\"";
        check_entry("regenerate_application_key", class, " <em>removed</em>");
    }
}
