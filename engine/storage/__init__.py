"""Files and databases that survive a crash.

``append_log.py`` writes lines and replaces whole files, ``lines.py`` reads files that grow. ``rollout_store.py`` has
the lines of groups and fusions; ``stored_records.py`` finds them by key, and keeps their packed summaries
(``summaries.py``) instead of the records. Rows of datasets come from files, the Hugging Face hub (``hub.py``) or a
fixed address (``web_rows.py``). ``json_lines.py`` reads the files of tasks' datasets. Of a user's file,
``data_files.py`` finds the form, ``source_files.py`` compression and encoding, and ``table_rows.py`` (with
``column_names.py``), ``json_rows.py`` (with ``json_forms.py``) and ``parquet_rows.py`` read the rows. ``sqlite.py``
opens databases that processes share. The other modules say where files of the project and of the user are, and which
version of a file is meant.
"""
