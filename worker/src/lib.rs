//! The worker shell: moves data between the world and the worker core, and runs processes.
