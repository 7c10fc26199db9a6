//! Locks in memory keep the lock contract.

use bell_locks::conformance::InProcess;
use bell_locks::locks::StoreLocks;
use bell_store::memory::Memory;

bell_locks::lock_conformance!(InProcess::new(StoreLocks::new(std::sync::Arc::new(Memory::new()))));
