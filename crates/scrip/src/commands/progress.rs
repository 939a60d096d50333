//! Progress of a long command: a bar on a terminal, occasional lines or nothing otherwise.

use std::{
    io::{self, IsTerminal, Write},
    time::Duration,
};

use scrip_operator::output::{format_bytes, format_count};
use scrip_server::clock::ticks;

const BAR_WIDTH: u64 = 32;
const REDRAW_EVERY: Duration = Duration::from_millis(100);
/// The control sequence that empties the current line of a terminal.
const CLEAR_LINE: &str = "\r\x1b[K";

/// A step of a command. Progress goes to standard error; standard output is for the result.
#[derive(Debug)]
pub(crate) struct Progress {
    step: &'static str,
    display: ProgressDisplay,
    unit: ProgressUnit,
}

/// The counted unit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProgressUnit {
    Bytes,
    Records,
}

#[derive(Debug)]
enum ProgressDisplay {
    Bar(ProgressBar),
    /// Printed tenths; `None` before the first line.
    Lines(Option<u64>),
    Hidden,
}

/// The progress in a file or a pipe.
#[derive(Debug, Clone, Copy)]
pub(crate) enum WithoutTerminal {
    /// For the log of a timer.
    Lines,
    /// For JSON output, and for reports that operators save.
    Hidden,
}

#[derive(Debug)]
struct ProgressBar {
    start_ticks: Duration,
    /// `None` before the first drawing.
    drawn_at: Option<Duration>,
}

impl Progress {
    pub(crate) fn new(
        step: &'static str,
        unit: ProgressUnit,
        without_terminal: WithoutTerminal,
    ) -> Self {
        let display = match (io::stderr().is_terminal(), without_terminal) {
            (true, _) => ProgressDisplay::Bar(ProgressBar { start_ticks: ticks(), drawn_at: None }),
            (false, WithoutTerminal::Hidden) => ProgressDisplay::Hidden,
            (false, WithoutTerminal::Lines) => ProgressDisplay::Lines(None),
        };
        Self { step, display, unit }
    }

    /// The progress of a command that only reports: a bar on a terminal, nothing otherwise.
    pub(crate) fn of_report(step: &'static str, unit: ProgressUnit) -> Self {
        Self::new(step, unit, WithoutTerminal::Hidden)
    }

    /// Reports `done` of about `total`.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        let (step, unit) = (self.step, self.unit);
        match &mut self.display {
            ProgressDisplay::Bar(bar) => {
                bar.draw(|elapsed| bar_text(step, unit, &Position { done, total }, elapsed));
            }
            ProgressDisplay::Lines(printed) => {
                // Print one line per tenth.
                let tenths = done.saturating_mul(10).checked_div(total).unwrap_or(0).min(10);
                if printed.is_none_or(|it| it < tenths) {
                    *printed = Some(tenths);
                    let (percent, total) = (tenths * 10, unit.format(total));
                    print(&format!("{step}: {percent} % of about {total}\n"));
                }
            }
            ProgressDisplay::Hidden => (),
        }
    }

    /// Reports activity without a known total.
    pub(crate) fn tick(&mut self) {
        let step = self.step;
        match &mut self.display {
            ProgressDisplay::Bar(bar) => {
                bar.draw(|elapsed| format!("{step}  {} s", elapsed.as_secs()));
            }
            ProgressDisplay::Lines(printed @ None) => {
                *printed = Some(0);
                print(&format!("{step}\n"));
            }
            ProgressDisplay::Lines(Some(_)) | ProgressDisplay::Hidden => (),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let ProgressDisplay::Bar(ProgressBar { drawn_at: Some(_), .. }) = &self.display {
            print(CLEAR_LINE);
        }
    }
}

impl ProgressBar {
    /// Draws the line again, unless the last drawing is recent.
    fn draw(&mut self, text: impl FnOnce(Duration) -> String) {
        let now = ticks();
        if self.drawn_at.is_none_or(|it| now.saturating_sub(it) >= REDRAW_EVERY) {
            self.drawn_at = Some(now);
            print(&format!("{CLEAR_LINE}{}", text(now.saturating_sub(self.start_ticks))));
        }
    }
}

impl ProgressUnit {
    fn format(self, count: u64) -> String {
        match self {
            Self::Bytes => format_bytes(count),
            Self::Records => format_count(count, "record"),
        }
    }
}

struct Position {
    done: u64,
    total: u64,
}

/// The line of a terminal: the step, a bar, both amounts, and an estimate of the remaining time.
fn bar_text(
    step: &str,
    unit: ProgressUnit,
    Position { done, total }: &Position,
    elapsed: Duration,
) -> String {
    let done = *done.min(total);
    let filled = done.saturating_mul(BAR_WIDTH).checked_div(*total).unwrap_or(0);
    let bar: String = (0..BAR_WIDTH).map(|it| if it < filled { '#' } else { '-' }).collect();
    let amounts = format!("{} of about {}", unit.format(done), unit.format(*total));
    let elapsed_ms = elapsed.as_millis();
    let remaining_ms =
        (elapsed_ms * u128::from(total - done)).checked_div(u128::from(done)).unwrap_or(0);
    match remaining_ms.div_ceil(1000) {
        0 => format!("{step}  {bar}  {amounts}"),
        seconds => format!("{step}  {bar}  {amounts}, {seconds} s left"),
    }
}

/// Prints to standard error. A closed standard error is not a reason to stop.
fn print(text: &str) {
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(done: u64, total: u64, unit: ProgressUnit, expected: &str) {
        let text = bar_text("copying", unit, &Position { done, total }, Duration::from_secs(3));
        assert_eq!(text, expected);
    }

    #[test]
    fn progress_bar_shows_amounts_and_remaining_time() {
        let (empty, quarter, full) =
            ("-".repeat(32), "#".repeat(8) + &"-".repeat(24), "#".repeat(32));
        check(
            1024,
            4096,
            ProgressUnit::Bytes,
            &format!("copying  {quarter}  1.0 KiB of about 4.0 KiB, 9 s left"),
        );
        check(
            7,
            7,
            ProgressUnit::Records,
            &format!("copying  {full}  7 records of about 7 records"),
        );
        check(0, 0, ProgressUnit::Bytes, &format!("copying  {empty}  0 B of about 0 B"));
        // More than the estimated total.
        check(9, 8, ProgressUnit::Bytes, &format!("copying  {full}  8 B of about 8 B"));
    }
}
