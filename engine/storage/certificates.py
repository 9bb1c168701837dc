"""The certificates that connections are checked with."""

from __future__ import annotations

import os
import ssl
from urllib.parse import urlsplit

import truststore


def trusted_certificates(url: str) -> ssl.SSLContext | bool:
    """The trusted certificates for an address: Python alone does not find those of every system."""
    if urlsplit(url).scheme != "https":
        return False
    if os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return ssl.create_default_context()
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
