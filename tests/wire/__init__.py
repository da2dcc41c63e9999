"""Tests of service.wire."""
