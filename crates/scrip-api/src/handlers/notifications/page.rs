//! The pages that respond to a posted form. A script notifies the waiting page; a person sees a
//! line of text.
//!
//! Any site may embed or open the pages. They contain only an id that their opener knows, and a
//! coarse status.

use axum::response::Response;
use scrip_core::types::id::ThreeDsSessionId;
use serde_json::{Value, json};

use crate::{
    handlers::pages::html::{self, generate_nonce},
    problem::Problem,
};

/// The page loads, sends and runs nothing, except the script with the nonce of the response.
const POLICY: &str = "default-src 'none'; base-uri 'none'; form-action 'none'";

/// Notifies the opener of this window, or else the page around this frame. The origin of that page
/// is unknown here.
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
    /// The opener watches whether the window is closed.
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
        let page = render_page("This step is complete. You can return to the shop.", &script);
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

/// Renders a rejection as a page. It has no script, so it cannot be mistaken for a notification.
pub(crate) fn render_rejection(response: Response, problem: &Problem) -> Response {
    let text = format!(
        "The request was rejected: {}.",
        escape_html(problem.detail().trim_end_matches('.'))
    );
    html::replace_with_html(response, render_page(&text, ""), POLICY)
}

fn render_page(text: &str, script: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>3-D Secure</title>\n</head>\n<body>\n<p>{text}</p>\n{script}</body>\n</html>\n"
    )
}

/// Renders JSON that cannot end the surrounding script or a line of it.
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
