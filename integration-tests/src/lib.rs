//! What only a test needs: the simulator, the laws, real clusters of processes.
