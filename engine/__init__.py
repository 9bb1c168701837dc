"""What is true whoever answers: records, client, rewards, statistics, stores."""
