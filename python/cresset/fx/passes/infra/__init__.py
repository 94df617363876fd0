"""Classes of passes, running several passes, and partitioning for backends."""
