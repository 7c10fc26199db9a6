//! Fences checked on the way into an HTTP service.
