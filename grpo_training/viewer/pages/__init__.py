"""The pages of the viewer: what each shows, as plain values for its template."""
