//! The newest metrics page, for a listener with one thread. Many requests at once get the same page,
//! so that rendering does not delay probes.

use std::{sync::Mutex, time::Duration};

use hyper::body::Bytes;
use tokio::time::Instant;

/// The maximum age of a page that is sent again.
const WINDOW: Duration = Duration::from_millis(250);
/// The maximum number of renderings per window, more than scrapers need.
const RENDERINGS_MAX: usize = 16;

/// The newest page, and the renderings of the current window.
#[derive(Debug, Default)]
pub(crate) struct RecentPage {
    window: Mutex<Option<RenderWindow>>,
}

#[derive(Debug)]
struct RenderWindow {
    started_at: Instant,
    renderings: usize,
    page: Bytes,
}

impl RecentPage {
    /// Renders the page, or returns the newest one if the window has enough renderings.
    pub(crate) fn get(&self, now: Instant, render: impl FnOnce() -> String) -> Bytes {
        let mut window = self.window.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let current =
            window.as_ref().filter(|it| now.saturating_duration_since(it.started_at) < WINDOW);
        if let Some(current) = current.filter(|it| it.renderings >= RENDERINGS_MAX) {
            return current.page.clone();
        }
        let (started_at, renderings) =
            current.map_or((now, 0), |it| (it.started_at, it.renderings));
        let page = Bytes::from(render());
        let renderings = renderings.saturating_add(1);
        *window = Some(RenderWindow { started_at, renderings, page: page.clone() });
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_is_rendered_a_limited_number_of_times_per_window() {
        let recent_page = RecentPage::default();
        let mut renderings = 0;
        let mut get = |now| {
            recent_page.get(now, || {
                renderings += 1;
                renderings.to_string()
            })
        };
        let start = Instant::now();
        for count in 1..=RENDERINGS_MAX {
            assert_eq!(get(start), count.to_string());
        }
        for _ in 0..100 {
            assert_eq!(get(start + WINDOW / 2), RENDERINGS_MAX.to_string());
        }
        assert_eq!(get(start + WINDOW), (RENDERINGS_MAX + 1).to_string());
    }
}
