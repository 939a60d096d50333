//! Progress of a long command: a bar on a terminal, occasional lines otherwise.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::output::format_bytes;

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
    /// For JSON output.
    Hidden,
}

impl Progress {
    /// A bar on a terminal; otherwise lines, or nothing with JSON output.
    pub(crate) fn new(step: &'static str, unit: ProgressUnit, json: bool) -> Self {
        let display = match (io::stderr().is_terminal(), json) {
            (true, _) => ProgressDisplay::Bar(ProgressBar::new_spinner().with_message(step)),
            (false, true) => ProgressDisplay::Hidden,
            (false, false) => ProgressDisplay::Lines(None),
        };
        Self { step, display, unit }
    }

    /// Reports `done` of about `total`.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        match &mut self.display {
            ProgressDisplay::Bar(bar) => {
                if bar.length().is_none() && total > 0 {
                    bar.set_style(style(self.unit));
                    bar.set_length(total);
                }
                bar.set_position(done.min(total));
            }
            ProgressDisplay::Lines(printed) => {
                // Print one line per tenth.
                let tenths = done.saturating_mul(10).checked_div(total).unwrap_or(0).min(10);
                if printed.is_none_or(|it| it < tenths) {
                    *printed = Some(tenths);
                    let (step, percent) = (self.step, tenths * 10);
                    let total_text = match self.unit {
                        ProgressUnit::Bytes => format_bytes(total),
                        ProgressUnit::Records => format!("{total} records"),
                    };
                    // A closed standard error is not a reason to stop.
                    drop(writeln!(
                        io::stderr().lock(),
                        "{step}: {percent} % of about {total_text}"
                    ));
                }
            }
            ProgressDisplay::Hidden => (),
        }
    }

    /// Reports activity without a known total.
    pub(crate) fn tick(&mut self) {
        match &mut self.display {
            ProgressDisplay::Bar(bar) => bar.tick(),
            ProgressDisplay::Lines(printed @ None) => {
                *printed = Some(0);
                drop(writeln!(io::stderr().lock(), "{}", self.step));
            }
            ProgressDisplay::Lines(Some(_)) | ProgressDisplay::Hidden => (),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let ProgressDisplay::Bar(bar) = &self.display {
            bar.finish_and_clear();
        }
    }
}

fn style(unit: ProgressUnit) -> ProgressStyle {
    let template = match unit {
        ProgressUnit::Bytes => {
            "{msg}  {bar:32}  {binary_bytes} of about {binary_total_bytes}, {eta} left"
        }
        ProgressUnit::Records => "{msg}  {bar:32}  {pos} of about {len} records, {eta} left",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
