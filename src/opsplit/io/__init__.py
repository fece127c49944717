"""Readers of files users have."""
