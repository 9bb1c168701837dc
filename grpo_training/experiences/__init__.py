"""Browsing and editing experience libraries."""
