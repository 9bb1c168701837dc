"""The accuracy of visual question answering."""
