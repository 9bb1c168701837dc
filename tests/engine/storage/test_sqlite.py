import sqlite3
import threading

import pytest

from engine.storage.sqlite import open_shared_database

SCHEMA = "CREATE TABLE IF NOT EXISTS t (x INTEGER);"


def test_many_processes_open_a_new_file_concurrently(tmp_path):
    for turn in range(10):
        path, gate, failed = tmp_path / f"{turn}.sqlite", threading.Barrier(8), []

        def work(path=path, gate=gate, failed=failed):
            gate.wait()
            try:
                connection = open_shared_database(path, SCHEMA, 1)
                connection.execute("INSERT INTO t VALUES (1)")
                connection.close()
            except sqlite3.Error as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        connection = open_shared_database(path, SCHEMA, 1)
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (8,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        connection.close()


def test_enabling_wal_waits_for_a_writer(tmp_path):
    """SQLite refuses to enable WAL while another connection writes, regardless of the timeout."""
    writer = sqlite3.connect(tmp_path / "a.sqlite", isolation_level=None, check_same_thread=False)
    writer.execute("CREATE TABLE before (x INTEGER)")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO before VALUES (1)")
    timer = threading.Timer(0.2, lambda: writer.execute("COMMIT"))
    timer.start()
    connection = open_shared_database(tmp_path / "a.sqlite", SCHEMA, 1)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    timer.join()
    writer.close()


def test_a_file_of_a_newer_format_is_refused(tmp_path):
    open_shared_database(tmp_path / "a.sqlite", SCHEMA, 2).close()
    with pytest.raises(sqlite3.DatabaseError, match="newer"):
        open_shared_database(tmp_path / "a.sqlite", SCHEMA, 1)
