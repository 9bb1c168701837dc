"""Groups of rollouts: how they are made, here or on a cluster, recorded, and read again."""
