"""What a selector is trained on: beam files, reward files, pools, embeddings."""
