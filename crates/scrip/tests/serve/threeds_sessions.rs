//! 3-D Secure with directory servers, through the real program.

mod cards;
mod log;
mod production;
mod results;
mod schemes;
mod shutdown;
mod simulator;
