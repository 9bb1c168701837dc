"""The pocket model: a small language model made from scratch, which speaks all the roles of the main job."""
