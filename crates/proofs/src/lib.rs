//! Every store under every fault, and the tables of what held.
