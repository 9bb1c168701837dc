"""The pages: what each shows, as functions from the stored data to the variables of its template."""
