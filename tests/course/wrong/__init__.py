"""Typical wrong solutions, a table for each assignment."""
