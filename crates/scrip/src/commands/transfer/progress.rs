//! How far a long command has come: a bar on a terminal, a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};

use indicatif::{ProgressBar, ProgressStyle};

use crate::commands::output::format_bytes;

/// A step of a command. It goes to standard error, so that standard output is the answer's.
#[derive(Debug)]
pub(crate) struct Progress {
    step: &'static str,
    display: ProgressDisplay,
    unit: ProgressUnit,
}

/// What is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ProgressUnit {
    Bytes,
    Records,
}

#[derive(Debug)]
enum ProgressDisplay {
    Bar(ProgressBar),
    /// Tenths that were told; nothing before the first line.
    Lines(Option<u64>),
    /// For a program, which reads the answer only.
    Hidden,
}

impl Progress {
    /// A bar on a terminal; elsewhere lines, or nothing where the answer is JSON.
    pub(crate) fn new(step: &'static str, unit: ProgressUnit, json: bool) -> Self {
        let display = match (io::stderr().is_terminal(), json) {
            (true, _) => ProgressDisplay::Bar(ProgressBar::new_spinner().with_message(step)),
            (false, true) => ProgressDisplay::Hidden,
            (false, false) => ProgressDisplay::Lines(None),
        };
        Self { step, display, unit }
    }

    /// So many of about so many.
    pub(crate) fn update(&mut self, done: u64, total: u64) {
        match &mut self.display {
            ProgressDisplay::Bar(bar) => {
                if bar.length().is_none() && total > 0 {
                    bar.set_style(style(self.unit));
                    bar.set_length(total);
                }
                bar.set_position(done.min(total));
            }
            ProgressDisplay::Lines(told) => {
                // A tenth is a line of its own.
                let tenths = done.saturating_mul(10).checked_div(total).unwrap_or(0).min(10);
                if told.is_none_or(|it| it < tenths) {
                    *told = Some(tenths);
                    let (step, percent) = (self.step, tenths * 10);
                    let all = match self.unit {
                        ProgressUnit::Bytes => format_bytes(total),
                        ProgressUnit::Records => format!("{total} records"),
                    };
                    // Nobody has to listen.
                    drop(writeln!(io::stderr().lock(), "{step}: {percent} % of about {all}"));
                }
            }
            ProgressDisplay::Hidden => (),
        }
    }

    /// It goes on, nobody knows how far.
    pub(crate) fn tick(&mut self) {
        match &mut self.display {
            ProgressDisplay::Bar(bar) => bar.tick(),
            ProgressDisplay::Lines(told @ None) => {
                *told = Some(0);
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
    let form = match unit {
        ProgressUnit::Bytes => {
            "{msg}  {bar:32}  {binary_bytes} of about {binary_total_bytes}, {eta} left"
        }
        ProgressUnit::Records => "{msg}  {bar:32}  {pos} of about {len} records, {eta} left",
    };
    ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar())
}
