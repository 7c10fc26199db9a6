//! What a store can promise, proved on the store itself.
