"""What tasks are made of beside the `Task` class: datasets, checks of an installation, rewards with settings."""
