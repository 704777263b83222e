//! Vocabulary and rules that the scheduler and the worker must share: identities, time, statuses, backoff, health, the worker set.
