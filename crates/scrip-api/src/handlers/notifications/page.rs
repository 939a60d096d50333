//! The pages at the end of a form. A script tells the one that waits; a person sees a line of text.
//!
//! They stand in frames and windows of any site, so nothing here forbids that; and there is nothing
//! on them but an id that their opener knows and a coarse word.

use axum::response::Response;
use scrip_core::id::ThreeDsSessionId;
use serde_json::{Value, json};

use crate::{
    handlers::html::{self, generate_nonce},
    problem::Problem,
};

/// Nothing is loaded, sent or run, but for a script that the answer itself names.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'";

/// To whoever opened this window, or else to the page around this frame. Which page that is, nobody
/// here can know.
const POST_MESSAGE_SCRIPT: &str = "\
if (window.opener) {
  window.opener.postMessage(message, \"*\");
  window.close();
} else {
  window.parent.postMessage(message, \"*\");
}";

#[derive(Debug, Clone, Copy)]
pub(super) enum NotificationPage {
    Method(ThreeDsSessionId),
    /// Whoever opened it watches whether it is closed.
    MethodPopup,
    Challenge {
        id: ThreeDsSessionId,
        is_completed: bool,
        is_successful: bool,
    },
}

impl NotificationPage {
    pub(super) fn response(self, fill_random: fn(&mut [u8])) -> Response {
        let nonce = generate_nonce(fill_random);
        let script = self.script();
        let script = format!("<script nonce=\"{nonce}\">\n{script}\n</script>\n");
        let page = render_page("This step is done. You can go back to the shop.", &script);
        html::html_response(page, &format!("{POLICY}; script-src 'nonce-{nonce}'"))
    }

    fn script(self) -> String {
        let message = match self {
            Self::MethodPopup => return "window.close();".to_owned(),
            Self::Method(id) => {
                json!({"type": "method", "id": id.to_string(), "isCompleted": true})
            }
            Self::Challenge { id, is_completed, is_successful } => json!({
                "type": "challenge",
                "id": id.to_string(),
                "isCompleted": is_completed,
                "authenticationStatus": if is_successful { "successful" } else { "failed" },
            }),
        };
        format!("var message = {};\n{POST_MESSAGE_SCRIPT}", escape_for_script(&message))
    }
}

/// The same answer, for a person: without a script, so that nobody takes it for a notification.
pub(crate) fn render_rejection(response: Response, problem: &Problem) -> Response {
    let text = format!("This could not be accepted: {}.", escape_html(&problem.detail()));
    html::replace_with_html(response, render_page(&text, ""), POLICY)
}

fn render_page(text: &str, script: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>3-D Secure</title>\n</head>\n<body>\n<p>{text}</p>\n{script}</body>\n</html>\n"
    )
}

/// JSON that cannot end the script it stands in, nor a line of it.
fn escape_for_script(value: &Value) -> String {
    let mut safe = String::new();
    for it in value.to_string().chars() {
        match it {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                safe.push_str(&format!("\\u{:04x}", u32::from(it)));
            }
            other => safe.push(other),
        }
    }
    safe
}

fn escape_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_cannot_close_a_script_element() {
        let value = json!({"id": "</script><!-- & \u{2028}\u{2029} \" \\ '"});
        let text = escape_for_script(&value);
        for mark in ['<', '>', '&', '\u{2028}', '\u{2029}'] {
            assert!(!text.contains(mark), "{text}");
        }
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert_eq!(escape_html("<b>&"), "&lt;b&gt;&amp;");
    }
}
