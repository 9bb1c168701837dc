"""What goes over the wire: bodies of requests and replies, and the client of HTTP."""
