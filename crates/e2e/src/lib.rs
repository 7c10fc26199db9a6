//! Tests of the whole, and of how the workspace is built. There is no code here; see `tests/`.
