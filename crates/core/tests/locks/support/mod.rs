//! A world in memory for the pure decisions, and what must be true in it.

pub(crate) mod check;
pub(crate) mod names;
pub(crate) mod op;
pub(crate) mod talk;
pub(crate) mod truth;
pub(crate) mod world;
