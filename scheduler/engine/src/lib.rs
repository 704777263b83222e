//! What may run where: the forest, statuses, placement and explanations.
