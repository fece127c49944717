"""Puts `building` within the reach of the tests in this folder and below."""
